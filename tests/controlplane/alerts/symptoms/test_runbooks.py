"""The pages of docs/runbooks are those that the catalogue makes."""

from controlplane.alerts.symptoms.runbooks import FOLDER, INDEX, pages
from controlplane.alerts.symptoms.symptom_catalogue import catalogue


def test_the_pages_are_as_the_catalogue_makes_them() -> None:
    """`python -m controlplane.alerts.symptoms.runbooks` writes them."""
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert there == pages()


def test_each_symptom_has_a_page_that_says_when_it_fires_and_what_to_do() -> None:
    made = pages()
    assert set(made) == {INDEX, *(f"{name}.md" for name in catalogue())}
    for name, one in catalogue().items():
        assert one.remedy in made[f"{name}.md"] and one.threshold_why in made[f"{name}.md"]
        assert f"({name}.md)" in made[INDEX]
