"""Hashes say by which algorithm they were made: another one can take over while what is there stays valid."""

import hashlib
import hmac

import pytest

from controlplane.db import marked_hash


def test_a_hash_is_the_algorithm_s_own_with_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert marked_hash.marked(b"x") == "sha256." + hashlib.sha256(b"x").hexdigest()
    assert marked_hash.signed(b"k", b"x") == "sha256." + hmac.new(b"k", b"x", hashlib.sha256).hexdigest()
    monkeypatch.setattr(marked_hash, "NEW", "sha3-256")
    assert marked_hash.marked(b"x") == "sha3-256." + hashlib.sha3_256(b"x").hexdigest()
    assert marked_hash.signed(b"k", b"x") == "sha3-256." + hmac.new(b"k", b"x", hashlib.sha3_256).hexdigest()
    assert marked_hash.all_marked(b"x") == [
        "sha3-256." + hashlib.sha3_256(b"x").hexdigest(),
        "sha256." + hashlib.sha256(b"x").hexdigest(),
    ]


def test_a_hash_counts_by_its_own_algorithm_whichever_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, signature = marked_hash.marked(b"x"), marked_hash.signed(b"k", b"x")
    monkeypatch.setattr(marked_hash, "NEW", "sha3-256")
    assert marked_hash.matches(b"x", kept) and not marked_hash.matches(b"y", kept)
    assert marked_hash.is_signed(b"k", b"x", signature)
    assert not marked_hash.is_signed(b"k", b"y", signature) and not marked_hash.is_signed(b"l", b"x", signature)
    digits = kept.partition(".")[2]
    for other in (digits, f"sha3-256.{digits}", f"md5.{digits}", f".{digits}", "sha256.", ""):
        assert not marked_hash.matches(b"x", other), other
        assert not marked_hash.is_signed(b"k", b"x", other), other


def test_an_algorithm_that_is_taken_out_counts_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = marked_hash.marked(b"x")
    monkeypatch.setattr(marked_hash, "NEW", "sha3-256")
    monkeypatch.setattr(marked_hash, "ALGORITHMS", {"sha3-256": hashlib.sha3_256})
    assert not marked_hash.matches(b"x", kept) and kept not in marked_hash.all_marked(b"x")
