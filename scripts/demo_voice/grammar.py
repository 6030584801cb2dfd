"""The closed vocabulary, the sentence templates and the split into training and held-out sentences.

Run it to print the vocabulary or the held-out sentences: `python -m scripts.demo_voice.grammar --show heldout`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
MINUTES = ["ten", "twenty", "thirty", "forty", "fifty", "fifteen"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
MONTHS = ["january", "april", "june", "august", "october", "december"]
DAY_PARTS = ["morning", "evening", "afternoon"]
WEATHER = ["cold", "warm", "sunny", "rainy", "cloudy", "windy"]
ADJECTIVES = ["big", "small", "old", "new", "beautiful"]
COLOURS = ["red", "green", "blue", "white", "black", "yellow", "brown"]
ANIMALS = ["dog", "cat", "horse", "bird"]
OBJECTS = ["book", "car", "apple", "table", "chair", "phone", "bottle", "letter"]
PLACES = ["house", "garden", "river", "school", "market", "station", "office", "kitchen"]
PEOPLE = ["mother", "father", "brother", "sister", "friend", "teacher", "doctor"]
EVENTS = ["meeting", "lesson", "party", "concert"]
VEHICLES = ["train", "bus", "plane"]
FOOD = ["coffee", "water", "milk", "tea", "bread"]
DETERMINERS = ["the", "my", "your"]

# A sentence with every word replaced by its class is its template. A word of two classes ("ten") takes the later one.
WORD_CLASSES = {
    "NUMBER": NUMBERS,
    "MINUTE": MINUTES,
    "DAY": DAYS,
    "MONTH": MONTHS,
    "PART": DAY_PARTS,
    "WEATHER": WEATHER,
    "ADJECTIVE": ADJECTIVES,
    "COLOUR": COLOURS,
    "ANIMAL": ANIMALS,
    "OBJECT": OBJECTS,
    "PLACE": PLACES,
    "PERSON": PEOPLE,
    "EVENT": EVENTS,
    "VEHICLE": VEHICLES,
    "FOOD": FOOD,
}

TRAINING_SENTENCES = 3200
HELDOUT_SENTENCES = 48
GRAMMAR_SEED = 11
SHORTEST, LONGEST = 3, 9  # words per sentence

Pick = Callable[[Sequence[str]], str]

# The order of the draws below decides which sentences come out, and with them heldout.txt. Where a template offers
# alternatives, all of them are drawn before one is picked.


def _event_time(pick: Pick) -> str:
    return f"the {pick(EVENTS)} starts at {pick(NUMBERS)} {pick(MINUTES)}"


def _event_day(pick: Pick) -> str:
    return f"the {pick(EVENTS)} is on {pick(DAYS)} {pick(DAY_PARTS)}"


def _departure(pick: Pick) -> str:
    if pick(("arrival", "departure")) == "departure":
        return f"the {pick(VEHICLES)} leaves at {pick(NUMBERS)} {pick(MINUTES)} on {pick(DAYS)}"
    return f"the {pick(VEHICLES)} arrives at {pick(NUMBERS)} {pick(('today', 'tomorrow'))}"


def _weather(pick: Pick) -> str:
    return pick(
        (
            f"the weather is {pick(WEATHER)} today",
            f"it will be {pick(WEATHER)} on {pick(DAYS)}",
            f"it was {pick(WEATHER)} and {pick(WEATHER)} in {pick(MONTHS)}",
            f"tomorrow will be {pick(WEATHER)} and {pick(WEATHER)}",
        )
    )


def _possession(pick: Pick) -> str:
    owner = f"{pick(DETERMINERS)} {pick(PEOPLE)}"
    return f"{owner} has a {pick(ADJECTIVES)} {pick(COLOURS)} {pick(OBJECTS + ANIMALS)}"


def _existence(pick: Pick) -> str:
    if pick(("one", "many")) == "many":
        return f"there are {pick(NUMBERS[1:])} {pick(COLOURS)} birds near the {pick(PLACES)}"
    return f"there is a {pick(ADJECTIVES)} {pick(ANIMALS)} in the {pick(PLACES)}"


def _whereabouts(pick: Pick) -> str:
    return f"{pick(DETERMINERS)} {pick(PEOPLE)} is in the {pick(PLACES)} {pick(('today', 'now'))}"


def _command(pick: Pick) -> str:
    return pick(
        (
            f"please open the {pick(('door', 'window'))}",
            f"please close the {pick(('door', 'window'))} now",
            f"turn on the {pick(('kitchen', 'garden'))} light",
            f"turn off the {pick(('music', 'light'))} please",
        )
    )


def _wish(pick: Pick) -> str:
    return f"{pick(('i', 'we'))} want {pick(('some', 'more'))} {pick(FOOD)} and {pick(FOOD)}"


def _greeting(pick: Pick) -> str:
    greeting, part = pick(("good", "hello")), pick(DAY_PARTS)
    opening = "hello" if greeting == "hello" else f"good {part}"
    return f"{opening} {pick(DETERMINERS[1:])} {pick(PEOPLE)}"


def _discovery(pick: Pick) -> str:
    found = f"{pick(('i', 'we', 'they'))} found the {pick(COLOURS)} {pick(OBJECTS)}"
    return f"{found} under the {pick(('table', 'chair', 'window', 'car'))}"


# (upper end of the interval of a uniform draw, template)
TEMPLATES: tuple[tuple[float, Callable[[Pick], str]], ...] = (
    (0.13, _event_time),
    (0.20, _event_day),
    (0.30, _departure),
    (0.40, _weather),
    (0.52, _possession),
    (0.62, _existence),
    (0.72, _whereabouts),
    (0.80, _command),
    (0.88, _wish),
    (0.94, _greeting),
    (1.00, _discovery),
)


def _draw_sentence(generator: random.Random) -> str:
    draw = generator.random()
    template = next(template for upper, template in TEMPLATES if draw < upper)
    return template(generator.choice).replace(" a old ", " an old ")


def sentences(
    training: int = TRAINING_SENTENCES, heldout: int = HELDOUT_SENTENCES, seed: int = GRAMMAR_SEED
) -> tuple[list[str], list[str]]:
    """Distinct sentences as (training, held-out): the first `heldout` ones drawn are held out, none is in both."""
    generator = random.Random(seed)
    drawn: dict[str, None] = {}
    for _ in range(1_000_000):
        if len(drawn) == training + heldout:
            break
        sentence = _draw_sentence(generator)
        words = sentence.split()
        repeats = any(first == second for first, second in pairwise(words))
        if SHORTEST <= len(words) <= LONGEST and not repeats:
            drawn.setdefault(sentence)
    if len(drawn) < training + heldout:
        raise SystemExit(f"the grammar gives {len(drawn)} distinct sentences, {training + heldout} were asked for")
    ordered = list(drawn)
    return ordered[heldout:], ordered[:heldout]


def vocabulary() -> tuple[list[str], list[str]]:
    """All words of the corpus and the words that begin a sentence, both sorted."""
    training, heldout = sentences()
    corpus = training + heldout
    words = {word for sentence in corpus for word in sentence.split()}
    return sorted(words), sorted({sentence.split()[0] for sentence in corpus})


def written(sentence: str) -> str:
    """The sentence as a person writes it: capitals at the start, for days, months and "I", and a full stop."""
    capitalised = [
        word.capitalize() if position == 0 or word == "i" or word in DAYS or word in MONTHS else word
        for position, word in enumerate(sentence.split())
    ]
    return " ".join(capitalised) + "."


def template_of(sentence: str) -> str:
    """The sentence with its open words replaced by their classes, to count how often a template occurs."""
    class_of = {word: name for name, words in WORD_CLASSES.items() for word in words}
    return " ".join(class_of.get(word, word) for word in sentence.split())


def main() -> None:
    """Print one of the grammar's lists, one entry a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", choices=("vocabulary", "heldout", "training"), default="vocabulary")
    show = parser.parse_args().show
    training, heldout = sentences()
    print("\n".join({"vocabulary": vocabulary()[0], "heldout": heldout, "training": training}[show]))


if __name__ == "__main__":
    main()
