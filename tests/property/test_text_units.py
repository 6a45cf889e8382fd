"""UTF-16 units: counted, found and scrubbed as editors do it."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gloveport.protocol.text import scrub_surrogates, utf16_index, utf16_length

ANY = st.text()  # no lone surrogates
WILD = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.characters(categories=["Cs"])))


@settings(deadline=None)
@given(ANY)
def test_length_is_what_an_encoder_says(text: str) -> None:
    """Two bytes of UTF-16 are one unit."""
    assert utf16_length(text) == len(text.encode("utf-16-le")) // 2


@settings(deadline=None)
@given(ANY, st.integers(-3, 40))
@example("abc", -1)
@example("é", -1)
@example("a😀b", 2)
@example("", 0)
def test_index_is_the_inverse_of_length(text: str, offset: int) -> None:
    """An index is given exactly where a code point begins or the text ends, never inside and never beyond."""
    starts = {utf16_length(text[:index]): index for index in range(len(text) + 1)}
    assert utf16_index(text, offset) == starts.get(offset)


@settings(deadline=None)
@given(WILD)
@example("\ud83d")
@example("\ude00\ud83d")
@example("\ud83dx")
@example("\ufeff\ud800")
@example("\ud83d\ude00")
def test_scrubbing(text: str) -> None:
    """What comes out can be stored; clean text is left alone; only lone surrogates change, and no unit moves."""
    clean = scrub_surrogates(text)
    clean.encode("utf-8")
    assert scrub_surrogates(clean) == clean
    units = [text.encode("utf-16-le", "surrogatepass")[at : at + 2] for at in range(0, 2 * utf16_length(text), 2)]
    after = [clean.encode("utf-16-le")[at : at + 2] for at in range(0, 2 * utf16_length(clean), 2)]
    assert len(units) == len(after)
    changed = {old for old, new in zip(units, after, strict=True) if old != new}
    assert all(0xD800 <= int.from_bytes(old, "little") <= 0xDFFF for old in changed)


@settings(deadline=None)
@given(ANY)
def test_clean_text_is_not_touched(text: str) -> None:
    """No normalisation, no byte order mark lost."""
    assert scrub_surrogates(text) == text
