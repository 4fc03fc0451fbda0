"""The proxy's decisions against a plain model of them, for arbitrary orders of what can happen."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from agents.backends.vllm.proxy.switchboard import Failure, Go, Limits, Refuse, Switchboard, Ticket, Wait

A, B = "http://127.0.0.1:1", "http://127.0.0.1:2"
LIMITS = Limits(hold_s=10.0, waiting=3, waiting_bytes=100)


def test_a_request_goes_to_the_target_and_a_switch_leaves_it_there() -> None:
    board = Switchboard(target=A)
    first = board.arrive(5, 0.0)
    assert board.place(first, 0.0) == Go(A)
    board.switch(B, 1.0)
    second = board.arrive(5, 1.0)
    assert board.place(second, 1.0) == Go(B)
    assert board.in_flight() == {A: 1, B: 1}
    board.end(first)
    assert board.in_flight() == {B: 1}


def test_held_requests_wait_until_the_switch_and_no_longer_than_their_time() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    board.hold(1.0)
    patient, late = board.arrive(5, 2.0), board.arrive(5, 9.0)
    assert board.place(patient, 2.0) == Wait(12.0)
    assert board.place(late, 9.0) == Wait(19.0)
    assert board.place(patient, 12.0) == Refuse(Failure.HELD)
    board.end(patient, Failure.HELD)
    board.switch(B, 13.0)
    assert board.place(late, 13.0) == Go(B)
    assert board.held_s(20.0) == 12.0
    assert (board.requests, board.failed, board.waiting) == (2, {Failure.HELD: 1}, 0)


def test_there_is_room_for_so_many_requests_and_so_many_bytes() -> None:
    board = Switchboard(limits=LIMITS)
    assert isinstance(board.place(board.arrive(60, 0.0), 0.0), Wait)
    assert board.place(board.arrive(41, 0.0), 0.0) == Refuse(Failure.NO_ROOM)
    assert isinstance(board.place(board.arrive(40, 0.0), 0.0), Wait)
    assert isinstance(board.place(board.arrive(0, 0.0), 0.0), Wait)
    assert board.place(board.arrive(0, 0.0), 0.0) == Refuse(Failure.NO_ROOM)


def test_without_a_target_or_with_one_that_is_not_reached_the_reason_says_so() -> None:
    board = Switchboard(limits=LIMITS)
    nobody = board.arrive(0, 0.0)
    assert board.place(nobody, 10.0) == Refuse(Failure.NO_TARGET)
    board.switch(A, 0.0)
    refused = board.arrive(0, 0.0)
    assert board.place(refused, 0.0) == Go(A)
    board.not_taken(refused, 1.0, unreachable=True)
    assert board.place(refused, 1.0) == Wait(10.0)
    assert board.place(refused, 10.0) == Refuse(Failure.NOT_TAKEN)


def test_an_unreachable_target_gets_nobody_until_it_is_reached_or_another_is_named() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    first, second = board.arrive(0, 0.0), board.arrive(0, 0.0)
    assert board.place(first, 0.0) == Go(A)
    board.not_taken(first, 0.0, unreachable=True)
    assert isinstance(board.place(second, 0.0), Wait)
    board.reachable()
    assert board.place(second, 0.0) == Go(A)
    board.not_taken(second, 0.0, unreachable=True)
    board.switch(A, 0.0)  # The same address, another process.
    assert board.place(first, 0.0) == Go(A)
    assert board.resent == 1


def test_an_old_target_that_cannot_be_reached_says_nothing_of_the_new_one() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    ticket = board.arrive(0, 0.0)
    board.place(ticket, 0.0)
    board.switch(B, 0.0)
    board.not_taken(ticket, 0.0, unreachable=True)
    assert board.place(ticket, 0.0) == Go(B)


def test_a_server_that_keeps_closing_is_asked_at_growing_pauses() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    ticket, now, pauses = board.arrive(0, 0.0), 0.0, []
    while True:
        assert board.place(ticket, now) == Go(A)
        board.not_taken(ticket, now, unreachable=False)
        match board.place(ticket, now):
            case Go():
                board.not_taken(ticket, now, unreachable=False)
                pauses.append(0.0)
                wait = board.place(ticket, now)
                assert isinstance(wait, Wait)
                pauses.append(wait.until - now)
                now = wait.until
            case Wait(until):
                pauses.append(round(until - now, 6))
                now = until
        if now > 5.0:
            break
    assert pauses[0] == 0.0
    assert pauses[1:] == sorted(pauses[1:])
    assert max(pauses) <= 0.5


def test_a_switch_ends_a_pause() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    ticket = board.arrive(0, 0.0)
    for _ in range(2):
        assert board.place(ticket, 0.0) == Go(A)
        board.not_taken(ticket, 0.0, unreachable=False)
    assert isinstance(board.place(ticket, 0.0), Wait)
    board.switch(B, 0.0)
    assert board.place(ticket, 0.0) == Go(B)


def test_while_stopping_nobody_waits_but_who_can_be_served_is() -> None:
    board = Switchboard(limits=LIMITS, target=A)
    board.stop()
    assert board.place(board.arrive(0, 0.0), 0.0) == Go(A)
    board.hold(0.0)
    assert board.place(board.arrive(0, 0.0), 0.0) == Refuse(Failure.STOPPING)


class SwitchboardMachine(RuleBasedStateMachine):
    """`open` holds, for every request that has not ended, the server it is with, or None, and whether it waits."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.board = Switchboard(limits=LIMITS)
        self.now = 0.0
        self.open: dict[int, tuple[Ticket, str | None, bool]] = {}
        self.target: str | None = None
        self.held = False
        self.unreachable = False
        self.ended = 0
        self.arrived = 0
        self.held_for = 0.0

    @rule(seconds=st.floats(0.0, 6.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        if self.held:
            self.held_for += seconds

    @rule(target=tickets, size=st.integers(0, 60))
    def arrive(self, size: int) -> Ticket:
        ticket = self.board.arrive(size, self.now)
        self.open[id(ticket)] = (ticket, None, False)
        self.arrived += 1
        return ticket

    @rule(url=st.sampled_from([A, B]))
    def switch(self, url: str) -> None:
        self.board.switch(url, self.now)
        self.target, self.held, self.unreachable = url, False, False

    @rule()
    def hold(self) -> None:
        self.board.hold(self.now)
        self.held = True

    @rule()
    def reachable(self) -> None:
        self.board.reachable()
        self.unreachable = False

    @rule(ticket=tickets)
    def place(self, ticket: Ticket) -> None:
        if id(ticket) not in self.open or self.open[id(ticket)][1] is not None:
            return
        waited = self.open[id(ticket)][2]
        others = [one for one, _, waits in self.open.values() if waits and one is not ticket]
        told = self.board.place(ticket, self.now)
        shut = self.held or self.target is None or self.unreachable
        match told:
            case Go(url):
                assert not shut
                assert url == self.target
                self.open[id(ticket)] = (ticket, url, False)
            case Wait(until):
                assert self.now < until <= ticket.deadline
                self.open[id(ticket)] = (ticket, None, True)
            case Refuse(Failure.NO_ROOM):
                assert not waited
                assert len(others) >= LIMITS.waiting or (
                    sum(one.size for one in others) + ticket.size > LIMITS.waiting_bytes
                )
            case Refuse(failure):
                assert self.now >= ticket.deadline
                assert (failure is Failure.HELD) == self.held

    @rule(ticket=tickets, unreachable=st.booleans())
    def not_taken(self, ticket: Ticket, unreachable: bool) -> None:
        if id(ticket) not in self.open or (url := self.open[id(ticket)][1]) is None:
            return
        self.board.not_taken(ticket, self.now, unreachable=unreachable)
        self.open[id(ticket)] = (ticket, None, False)
        self.unreachable |= unreachable and url == self.target

    @rule(ticket=consumes(tickets), failure=st.none() | st.sampled_from(list(Failure)), left=st.booleans())
    def end(self, ticket: Ticket, failure: Failure | None, left: bool) -> None:
        if self.open.pop(id(ticket), None) is not None:
            self.board.end(ticket, failure, left=left)
            self.ended += 1

    @invariant()
    def every_request_is_counted_where_it_is(self) -> None:
        with_servers = [url for _, url, _ in self.open.values() if url is not None]
        counts = {url: with_servers.count(url) for url in with_servers}
        told = self.board.in_flight()
        assert {url: count for url, count in told.items() if count} == counts
        assert self.target is None or self.target in told
        queue = [ticket for ticket, _, waits in self.open.values() if waits]
        assert self.board.waiting == len(queue) <= LIMITS.waiting
        assert self.board.waiting_bytes == sum(ticket.size for ticket in queue) <= LIMITS.waiting_bytes
        assert self.board.requests == self.arrived == len(self.open) + self.ended

    @invariant()
    def held_time_is_the_sum_of_the_holds(self) -> None:
        assert abs(self.board.held_s(self.now) - self.held_for) < 1e-6


TestSwitchboardMachine = SwitchboardMachine.TestCase
TestSwitchboardMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
