"""The pure half of the way out, whatever it is given: hosts, entries, heads, hellos.

Purpose: one spelling for each host, no match that is not by whole labels, and no input that breaks a reader.
"""

import contextlib
import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kit.egress import client_hello

from gloveport.sandbox.egress.entries import Entry, EntryError, Via, decide, read_entry
from gloveport.sandbox.egress.head import END, HeadFault, forwarded, read_absolute, read_connect, read_head, read_origin
from gloveport.sandbox.egress.hello import HelloFault, is_whole, read_hello
from gloveport.sandbox.egress.hosts import (
    Authority,
    HostError,
    Reach,
    classify,
    read_authority,
    read_host,
    read_typed_host,
)

LABELS = st.from_regex(r"[a-z]([a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
PORTS = st.integers(1, 65_535)
ANYTHING = st.text(st.characters(codec="utf-8"), max_size=60)


@given(ANYTHING | st.from_regex(r"[0-9a-fx.:\[\]%@-]{1,40}", fullmatch=True))
def test_a_host_is_refused_or_has_one_spelling(text: str) -> None:
    with contextlib.suppress(HostError):
        host = read_host(text)
        again = f"[{host}]" if ":" in host else host
        assert read_host(again) == host
        assert host == host.lower()
        assert host.isascii()
        assert not set(host) & set("/@#?% \t\r\n\0")


@pytest.mark.parametrize(
    "text",
    ["0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.",
     "256.1.1.1", "1.2.3", "a.1", "a.0x1f", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::1]", "[2002:7f00:1::]",
     "[fe80::1%1]", "[::1", "::1", "::1]", "[1.2.3.4]", "a..b", ".a", "a.", "-a.b", "a-.b", "a_b.c", "a b", "a%2eb", "",
     "x" * 64 + ".b", ".".join(["abcdefgh"] * 40), "xn--", "xn--a.b", "xn--zz--.b", "ab--c.d", "ａ.example", "a。b",
     "xn--80ak6aa92e.com\0", "user@a.b", "a:b"],
)  # fmt: skip
def test_tricks_with_spellings_are_refused(text: str) -> None:
    with pytest.raises(HostError):
        read_host(text)


def test_plain_spellings_are_taken() -> None:
    assert read_host("API.Example.org") == "api.example.org"
    assert read_host("127.0.0.1") == "127.0.0.1"
    assert read_host("[2606:4700:0::1111]") == "2606:4700::1111"
    assert read_host("xn--bcher-kva.example") == "xn--bcher-kva.example"
    assert read_typed_host("bücher.example") == "xn--bcher-kva.example"
    assert read_authority("a.b:443") == Authority("a.b", 443)
    for wrong in ("a.b", "a.b:", "a.b:0", "a.b:070", "a.b:65536", "a.b:+1", "u@a.b:1", "[::1]x:1", "a.b:1:2"):
        with pytest.raises(HostError):
            read_authority(wrong)


@given(st.ip_addresses())
def test_no_address_of_this_machine_or_network_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    kind = classify(address)
    if kind is Reach.PUBLIC:
        assert address.is_global
        mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
        assert mapped is None
    if kind is Reach.LOOPBACK:
        assert address.is_loopback


ENTRIES = st.builds(
    Entry,
    host=NAMES,
    port=PORTS,
    reach=st.sampled_from(Reach),
    raw=st.just(False),
    methods=st.sampled_from([(), ("GET",), ("GET", "HEAD")]),
    terminate=st.booleans(),
    broker=st.booleans(),
)


@given(ENTRIES)
def test_an_entry_reads_back_as_it_is_written(entry: Entry) -> None:
    assert read_entry(str(entry)) == entry


@given(ANYTHING)
def test_any_text_is_an_entry_or_is_refused(text: str) -> None:
    try:
        entry = read_entry(text)
    except EntryError:
        return
    assert read_entry(str(entry)) == entry


@given(NAMES, NAMES, PORTS, PORTS, st.booleans())
@example("a.b", "xa.b", 1, 1, False)
@example("example.org", "evil-example.org", 443, 443, True)
@example("b.example.org", "a.b.example.org", 443, 443, True)
def test_only_whole_labels_match(listed: str, asked: str, port: int, asked_port: int, star: bool) -> None:
    entry = Entry(f"*.{listed}" if star else listed, port)
    allowed = decide((entry,), Authority(asked, asked_port), Via.HTTP, "GET").allowed
    same = asked.partition(".")[2] == listed if star else asked == listed
    assert allowed == (same and port == asked_port)


@pytest.mark.parametrize("base", ["com", "co.uk", "github.io", "1.2.3.4", "localhost", "s3.amazonaws.com"])
def test_a_star_stands_below_no_public_suffix(base: str) -> None:
    with pytest.raises(EntryError):
        read_entry(f"*.{base}:443")
    for wrong in ("*:443", "a.*.org:443", "a*.example.org:443", "*.*.example.org:443", "**.example.org:443"):
        with pytest.raises(EntryError):
            read_entry(wrong)
    assert read_entry("*.example.org:443").matches("a.example.org", 443)


@given(st.sampled_from(["loopback private", "raw methods=GET", "methods=get", "methods=", "raw raw", "loopback  raw",
                        "credential=own", "terminate=1", "raw credential=broker"]))  # fmt: skip
def test_options_that_contradict_are_refused(options: str) -> None:
    with pytest.raises(EntryError):
        read_entry(f"a.example:443 {options}")


LINES = st.lists(
    st.sampled_from(
        [b"Host: a.example", b"host: b.example", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"X: y", b" fold",
         b"Connection: close", b"Connection: host, x", b"Expect: 100-continue", b"X\t: 1", b"Y: \xff", b""]
    )
    | st.binary(max_size=20),
    max_size=6,
)  # fmt: skip
FIRST = st.sampled_from(
    [b"GET http://a.example/ HTTP/1.1", b"GET / HTTP/1.1", b"CONNECT a.example:443 HTTP/1.1", b"get / HTTP/1.1"]
) | st.binary(max_size=40)


@given(FIRST, LINES, st.sampled_from([b"\r\n", b"\n"]))
def test_any_head_is_refused_or_means_one_thing(first: bytes, lines: list[bytes], end: bytes) -> None:
    raw = end.join([first, *lines]) + END
    try:
        head = read_head(raw)
    except HeadFault:
        return
    names = [name for name, _ in head.headers]
    assert names.count(b"host") <= 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    place = Authority("a.example", 80)
    for reader in (read_absolute, read_connect, lambda one: read_origin(one, place, 80)):
        with contextlib.suppress(HeadFault):
            reader(head)
    sent = forwarded(head, place, 80)
    assert [value for name, value in sent if name == b"host"] == [b"a.example"]
    assert all(b"\r" not in value and b"\n" not in value and b"\0" not in value for _name, value in sent)
    assert head.has_body == any(name in (b"content-length", b"transfer-encoding") for name, _ in sent) or (
        head.get(b"content-length") is not None
    )


@given(st.binary(max_size=400))
def test_any_bytes_are_no_hello_or_one(data: bytes) -> None:
    with contextlib.suppress(HelloFault):
        if is_whole(data):
            read_hello(data)


@given(st.integers(0, 600), st.integers(0, 255))
def test_a_hello_with_a_changed_byte_names_the_same_server_or_is_refused(at: int, byte: int) -> None:
    """A change to the name is another name; none makes the reader break."""
    hello = bytearray(client_hello("ok.test")[5:])
    name_at = bytes(hello).find(b"ok.test")
    at %= len(hello)
    hello[at] = byte
    with contextlib.suppress(HelloFault):
        if is_whole(bytes(hello)):
            name = read_hello(bytes(hello)).name
            assert name is None or name_at <= at < name_at + 7 or name == "ok.test" or len(name) != 7
