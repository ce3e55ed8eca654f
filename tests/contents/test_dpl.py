"""Entity stores of the Direct Persistence Layer: a catalog and entities that JE 18.3.20 wrote, and any other bytes."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.base import Fields, unknown
from engine.contents.bindings import big_integer, sorted_decimal
from engine.contents.dpl import DPL, formats_of, store_database
from engine.contents.java_objects import STREAM_HEADER
from engine.errors import FormatError
from tests.support.environments.entity_store import FORMATS, STORE, read_back
from tests.support.environments.java_objects import Given

# The one record of the catalog of a store with an entity class and what it refers to: deflated, in base 85.
CATALOG: Final = zlib.decompress(
    base64.b85decode(
        "c-pNRZEPIX@!k33{FTIUz9B#$PB8hn3lIoN5UJx2FumBuPC$f~u)ce?m+b96cK7T%Q-Oe@LQ7StrF^I@0u-"
        "tWfoOoL6|`xqic%&0(L|ypNVK#PB&k3uv;nmg)R}qvY45FlN$<zp-t4@2^Y!M<ym!xi!0IfMrE^9hZE2i~a!#?+f}56V*=e;PwDh3-"
        "(WTgmW{kCW!}s|0$M4>A>+WwRSxp~HO(21xXIayzVHOlS3)D7i&EBp|D4C+IY8k|A&$7ls(N=6AwQSarg()-"
        "Mlo@Br44*Kx37*;IQf@B^##jPmT!j46$S>V#no1d&mhL%r-"
        "s7(;Kd51eK2~d~Q=G`RP1Yh5vuM_D=#Fw+w|hzU#}?N%|M%l`Ym%{&$u5i;Ea_9<o;vw#;)SUsYuw9Hd9HDr=lfVv&F^LPMZIY8Jm{U%6wB&Y3fy"
        "LG(kz;yk7b5!Q`N`7FfE#5bITFIW~(dM2ItL4A{aDZn0!Jtik8IO!R}&>SypdyCC|-"
        "Sm<$mSFln}m@FK*aiBNV~fJAITz>CA&mfm0q2L2^?pdRUgk=uEWhPMa_!SD-xcU`Ag<1qM@?)$&{$j^Sdxdv=2CR>0{>y9rl`jlY6#u#G{Bji%d_"
        "THU_p*?(La?jr;4_+Z1b@3d>?s)Cddp6$q`_Uvz?q!X_R12!DPVg+7H)$%uvxLnqiL+ji<MtA2oI)j%V3pJe$i@{Nk&A?c7Jkj2rf`C=t@vC6;}-"
        "hX-05>zDkO~HP-C-|{+JxDDMh!_UGy*lVaOKyue*$bP|P4&HPXY}R25B~LUf7AnW}R`+2)r$|I{Zhoj-Cjx&b*XMA>RVq1q96i<t9-"
        "gfUiFiO+Q~Xnw#7&hS-"
        "2!ieFuh+2W*oKQIS7YifYMEtpqUaMwF1Yx~~#|_hd^)FW+Ek5?hcu28&kg?9f*N9ppB#hCl9iLM$YJo4_usgm(NEojgg4ID~IzX8Xb5^ELx7Vmg-"
        "u^Iks1Q=60feeibrNKQkT6D(_4wQv4pd;x$E2Y%Lc$0Rb)<^TE~pr-y4}sKT(q*8sv<IL=wmBBOYMFA;OD;!Y1@Pmsli*sY!(v6sCzj+H-"
        "{rK>kQu_B&?__g3F@S*-"
        "}*?_G*S=&%bH^!SdL<7lrg`!9X0v*NECKB#cpL8$Qnq2V$=~{u&|SnP_wkXq1_=M%_jcvQ5K(x;HNP<FRjrRGJUM)#vFw;&uuNV|41o=LO-dsM}-"
        "EBP2W%rFyE0x~_4>d}Q>~!9T4#d2dLiR*bqFyhTi(kT6D}>+pFY3|bUO-7s9q*>ag>g@jT2K{#W$nq;eTk1R+AcH}<&eEG?INSC&-"
        "oh2o{9TXDAEd8Znb%yyJMXu*~*a0YURl@F6#~=f}a&^ahzxwcWIJqri?mh>U<7r9h=BhnH!b(OAheNd@b@SZr*O%P%?|V81LLx1mArerk1w})On}"
        "vjP7HRIm3FSIJxbMR5WxrUmFC@?sFS}8VhIIJu%R<8Fk|P+HkWRVcEH>YR_)w43OPMFMA|#C9nUDj8^8wX5VpPLA28tD_+nZB`;}fr~xiiUH_Oce"
        ")H}rF!=TLet(D|ecQAwL+shno*;?PvE^%Y9Hf&t}wrVC4TB+Nsf0|jyuv<9kOmP0qh4(;(Mov|xaJ!hCE)W%wQz=VRE=ZAUji@Z#RXwI@$5OcRNp"
        "yhj2uH|<rB3y6-"
        "0=O*H4IRc1$&gdrUl~`PhOE>c7>AukfEh`VfJVa5^1F?GJ_#>&NnedZX8_f)OKG#Uu`LPG^y#ApN^6mZfmxB?7|a}aA!qh0=L;Yfx5oNi)4+<*4-"
        "T3}sod`MfAkaCs3f*ZjC08HLSVUW?ksWKej#C0m_pb@Gb7ih{Wg-gm8fC8ByL0~&fc!qUgH0%Kb~X_ds(xLI3fsk*M1j?@-"
        "<{x8}Ju~rP_SDM_Yy8))F3aa3HRH-7&zi3sTH7@UYpY*Z?2&C<8&>DnMhE=ewp!HxK-"
        "6=y^#`f{n`Nk@AA(toNwR&_QDhpP)t_joBX8io5Z*^2yFqQ~6V+B&&(ASN&+P&8^klHzinhi*CtI?`OBqQfEsl3Pq<CJhk}Y7k9NCfabD~HS67Kf"
        "$QixE6Wy;t90*}fn@OGe=XT$5<yu=7-"
        "5+tqHc3Ct&=)iY}UXv4l~(SNdzp%$a2tFSKveYj*fwf4~FNM+kuH4dDb$!x7;}+<%rMhgEEMubw0Xa{o^0k-"
        "rt(USZ>DnDo2`amDi7W#|%#X`l<sfwN|&;Y)L@H5zEFRixTiWAMY?bx8$dli($%5F?zrdnW7wFyyWsAv3k(w)B&7U&w&#T_=b?M(gqsg$A{*&z>?"
        "&iB>gV>K?rs0ept0L(e)FGR^-)%+CvpY{5mkf@B7a#vM6a2_CEZ5Q8*}eo171Gik$BW2_q(Jbb?~#%%Jd-WoTIpLlckNx$Ty9gbfl$1Q?MA0*rny"
        "^?&y(6Y3b&RP>@P&}u^i;MQ8fa9j_{ZmDA9bgbb8)-z<1XM7V@ktu%YxbORCnHW6JttPg2BX~|o7{Rz9WU(Pd&l`o#T#j2-"
        "sGh})<>kvK5Ih+g=(@zEJ0MN#R}myq`^*gE1k*twVT6RKY4aj@3c=HXiF_ZXtMs8Ggy+MTNs^b($cI01eE8!3%ZF<~nPovQ==*s-"
        "keFX}V5M%6%=R?|4^V2DZmbQ!|H`@K-_XpStq#%jhbWs?o34K8*y`tJpRVMN;7dWKyJTkKa*Xzx10$xbpJue^bV3{3jN}!uy{((;_U1_E8TK%-"
        "I($ZkJ>nSlw`XtI!(KW&<SVril-gFs0+XQ=YA=qGfJe`0jUA(kYVq_%arPw@EqgzHGBn#82#yO0Be*vq>V=35^<(#JkYv1}$csFL>BdtVo2`o4)$"
        "lyWRuwHGnI82|1U4~m?mr6&E7_7HIuHoVOTmXt-9l@}PRpRnk#~fIktTG#kZ`^5R}pg?=rnON+MAAdzx3Af!ylbPg(x(z^4!X6DN3{Sc(SW^c-"
        "{M*qpWVniLKGSNn4%+3J)x%_ff$<1;4H!ZEU<^B$d`gRUcOS9vx&*M^$I}fB4LgKDSS&c9JHEg42%8yru)vy3||0{>{?cj@GbbFKf~aCEp89Hq1W"
        "OXpfuR8aK3jNjR2nnQWkgPVgJljCn3>;JGQzD8qra(6x<tZcEo^){)*Ms{=dBThvacj9M4ll6D7Zu^DxGq3K3UK{XrfO-+tBu6cQ4;~-"
        "lIiN+gO#ccBq1!(0J;JXMmk#i8dFLT=a;;xE~kF-aS6LUUobg3D*d+5=Nh2Tq&uX$Hz|IPb$59}N0@3C1OFDR-;G5-OA8$3ZyOF>Q({3rHd>*B--"
        "A7X8Lvb^fqCk{Ls9khX?1H{}>q3QQTd5<tB3I5$ZRHOi^br=3=1Rs;-"
        "5d5PwTY_9h$#9w9scfXXESuFRW8BBibDHHEMKAkUT1%S&JED&HSaM<pY&v3;c;3gKPZyc6@<swIuBTIdK<36J(q@gAr(i7_CN9sIjR(Cd8{7GB{$"
        "cPd)~btOdEUb6aK&5RnMCNn0)F$m1=Csr(|KZ^kg(!KqCGv90%x{GGko~rO!WM*8&8}%@6K!S%vi|fT{G0v4OY2!sHdkNzH_9ZXNarm4$5YUQP&R"
        "5Xot>x9&(1|XYwma?&SzpklZW$cbl1Gy+KW(`+>wcLc-"
        "W2?{2k;bE`X5@?@vgGHA0@&M4}(S)OZqo1jT&%CY<mn{QW++8nIGh>)IAMWkpjV%#VM!d+GY5S5zdBOma$;>(y@Vkb5U2_uDtISbCYeON#W(HZC("
        "y{Ng~Pu|iu%iYPK`}d2$8JhWNcI47iZ+t@gRMe?io4*3KlC7^ouuVuf%c+@T$68ncmM`Z{d`xUb;>(HUH3)VH3Fp8Pazc%%O#1fdqPt7{uRzW)19"
        "p1a_rMj*?FbWeQ<><Qtr&tyEN=VE*3!QZKmlvqN6P97RJ4_`!12vu`X>r-"
        "m{0@Wyp^tcfOvA8>#jYbk^#NLGe>q683_HI7!nfB@uU*Mqi)hL^S)G062SQlbAL%p&&vo-"
        "#H<#Xr)jU49*VS;lqj&ti<Csj$}}aVOOl?#1~<jE(Sa(jmD1kd(M}vb(DKfv!b7wnHo;yu!J(CsX>c^l8f5L_|28?U6w}=bLt7v7Y9}YTRQ2M2>`"
        "z@^"
    )
)
# Three entities; the second has no department, the third neither address nor tags.
ENTITIES: Final = [
    (
        "31098000000461314078008000001f36495400526f6d6500800000657ffffffffffffffb09800000077c00713701bfc0"
        "0000f02f2603127800098000000500202601126b0026010980000009416e6e203100ff003903800000017ffffffe8000"
        "012c3302817f3ffbffffffffffff2426010b80000000000000087ffd232602127431001274320001158000018bcfe568"
        "0038027700ff00f0"
    ),
    (
        "310061324078008000002036495400526f6d6500800000667ffffffffffffffb09800000077c00713701bfc00000f42f"
        "2603127800098000000500202601126b0026010980000009416e6e203200ff003903800000017ffffffe8000012c3302"
        "817f3ffbffffffffffff2426010b80000000000000087ffd232602127431001274320000158000018bcfe56800380277"
        "00ff00f4"
    ),
    (
        "31098000000461334078008000002136495400526f6d6500800000677ffffffffffffffb09800000077c007100bfc000"
        "00002f2603127800098000000500202601126b0026010980000009416e6e203300ff00003302817f3ffbffffffffffff"
        "2426010b80000000000000087ffd0000158000018bcfe5680038027700ff00f0"
    ),
]
PERSONS: Final = "persist#shop#Dpl$Person"
SOURCE: Final = Given({"persist#shop#com.sleepycat.persist.formats": [(b"\x7f\xff\xff\xff", CATALOG)], PERSONS: []})
DECODER: Final = DPL.decoder(SOURCE)


def key_of(number: int) -> bytes:
    return (number + (1 << 63)).to_bytes(8, "big")


def test_a_store_is_recognised() -> None:
    assert registry.recognise(SOURCE) is DPL
    assert registry.recognise(Given({"persist#shop": []})) is None
    assert store_database("persist#shop#A#key") == ("shop", "A", "key")
    assert store_database("orders") is None


def test_an_entity_as_json() -> None:
    found = registry.decode(DECODER, PERSONS, key_of(1), bytes.fromhex(ENTITIES[0]))
    assert (found.key, found.known) == ({"id": 1}, True)
    assert found.data == {
        "class": "Dpl$Person", "dept": 4, "email": "a1@x", "age": 31,
        "any": {"class": "Dpl$Address", "country": "IT", "city": "Rome", "zip": 101, "at": 15}, "big": -5, "boxed": 7,
        "by": -4, "ch": "q", "color": "GREEN", "f": 1.5, "home": {"ref": 15}, "ll": ["x", 5, None],
        "map": {"entries": [["k", 9]]}, "name": "Ann 1", "nul": None, "nums": [1, -2, 300], "raw": {"hex": "01ff"},
        "score": -2.5, "set": [8], "sh": -3, "tags": ["t1", "t2"], "vip": True, "when": {"time_ms": 1_700_000_000_000},
        "words": ["w", None], "work": {"ref": 15},
    }  # fmt: skip


def test_what_is_null() -> None:
    two, three = (registry.decode(DECODER, PERSONS, key_of(n), bytes.fromhex(ENTITIES[n - 1])).data for n in (2, 3))
    assert (two["dept"], two["email"], two["any"]["zip"]) == (None, "a2@x", 102)
    assert (three["home"], three["tags"], three["color"], three["nums"]) == (None, None, None, None)


# A store with every kind of field and key, and what JE reads of it.
EVERYTHING, STORED = read_back()
OF_ALL: Final = DPL.decoder(Given({FORMATS: [(b"\x7f\xff\xff\xff", EVERYTHING)]}))


def places_of(found: Any) -> dict[int, Any]:
    """What says where it stands, by its place."""
    parts = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
    placed = {found.pop("at"): found} if isinstance(found, dict) and "at" in found else {}
    for part in parts:
        placed |= places_of(part)
    return placed


def as_je(found: Any, placed: dict[int, Any], above: tuple[int, ...] = ()) -> Any:
    """With what is referred to in the place of references, as an object graph has it."""
    if isinstance(found, list):
        return [as_je(part, placed, above) for part in found]
    if not isinstance(found, dict):
        return found
    if list(found) == ["ref"]:
        found = placed[found["ref"]]
    if id(found) in above:
        return "above"
    return {name: as_je(part, placed, (*above, id(found))) for name, part in found.items()}


ENTITY_DATABASES: Final = [name for name, records in STORED.items() if records[0]["je"] is not None]


@pytest.mark.parametrize("name", ENTITY_DATABASES)
def test_every_kind_of_field_and_key_as_je_reads_it(name: str) -> None:
    for one in STORED[name]:
        found = registry.decode(OF_ALL, name, bytes.fromhex(one["key"]), bytes.fromhex(one["data"]))
        assert found.known
        assert as_je({**found.key, **found.data}, places_of(found.data)) == one["je"]


def test_every_secondary_key() -> None:
    """Each leads to the entity that has it: in a field, or among the values of one."""
    seen = 0
    for name in [name for name in STORED if name.count("#") == 3]:
        entity = name.rpartition("#")[0]
        for one in STORED[name]:
            found = registry.decode(OF_ALL, name, bytes.fromhex(one["key"]), bytes.fromhex(one["data"]))
            ((field, value),) = found.key.items()
            (owner,) = [other["je"] for other in STORED[entity] if found.data["primary"].items() <= other["je"].items()]
            # One index has another name than its field.
            value_of = owner["price" if field == "cost" else field]
            values = value_of if isinstance(value_of, list) else [value_of]
            assert found.known
            assert value in values
            seen += 1
    assert seen == 13


def test_sequences_and_the_catalog() -> None:
    name = f"{STORE}com.sleepycat.persist.sequences"
    ((one,), catalog) = STORED[name], registry.decode(OF_ALL, FORMATS, b"\x7f\xff\xff\xff", EVERYTHING)
    found = registry.decode(OF_ALL, name, bytes.fromhex(one["key"]), bytes.fromhex(one["data"]))
    assert (found.key, found.data["stored"], found.known) == ({"sequence": "ids"}, 101, True)
    assert (catalog.key, catalog.known) == ({"catalog": "all"}, True)
    assert {"id": 19, "class": "java.math.BigInteger", "kind": "SimpleFormat$FBigInt"} in catalog.data["formats"]


def test_large_numbers_that_are_none() -> None:
    assert big_integer(Fields(b"\x80\x01\x85")) == 5
    long = (2000 + (1 << 15)).to_bytes(2, "big") + b"\x81" + bytes(1999)
    assert big_integer(Fields(long)) == {"hex": "01" + "00" * 1999}
    for read, data in (
        (big_integer, "8000"), (sorted_decimal, "817f7e"), (sorted_decimal, "807ffb05f5e0877e"),
        (sorted_decimal, "817ffb05f5e087"), (sorted_decimal, "837ffb05f5e0877e"),
        (sorted_decimal, "817ffc05f5e087007e"), (sorted_decimal, "81ff7f05f5e0877f7ffa0f41c77e"),
    ):  # fmt: skip
        with pytest.raises(FormatError):
            read(Fields(bytes.fromhex(data)))


def test_secondary_indexes() -> None:
    assert registry.decode(DECODER, f"{PERSONS}#email", b"a1@x\0", key_of(1)) == (
        {"email": "a1@x"}, {"primary": {"id": 1}}, True,
    )  # fmt: skip
    assert registry.decode(DECODER, f"{PERSONS}#dept", b"\x80\0\0\4", key_of(1))[:2] == (
        {"dept": 4}, {"primary": {"id": 1}},
    )  # fmt: skip
    assert registry.decode(DECODER, f"{PERSONS}#other", b"k", key_of(1)).known is False


def test_a_store_without_a_readable_catalog() -> None:
    decoder = DPL.decoder(Given({"persist#shop#com.sleepycat.persist.formats": [(b"k", CATALOG[:500])]}))
    assert registry.decode(decoder, PERSONS, key_of(1), bytes.fromhex(ENTITIES[0])).known is False


@given(st.binary(max_size=60), st.integers(0, len(ENTITIES[0]) // 2), st.integers(0, 255))
def test_any_bytes_are_an_entity_or_refused(data: bytes, at: int, byte: int) -> None:
    whole = bytes.fromhex(ENTITIES[0])
    for value in (data, whole[:at] + data, whole[:at] + bytes((byte,)) + whole[at + 1 :]):
        found = registry.decode(DECODER, PERSONS, key_of(1), value)
        assert json.dumps(found.data, ensure_ascii=False).encode("utf-8")


@given(st.sampled_from(sorted(STORED)), st.data(), st.integers(0, 255))
def test_a_changed_byte_of_any_record_is_decoded_or_refused(name: str, data: st.DataObject, byte: int) -> None:
    one = data.draw(st.sampled_from(STORED[name]))
    found = []
    for part in (bytes.fromhex(one["key"]), bytes.fromhex(one["data"])):
        at = data.draw(st.integers(0, max(len(part) - 1, 0)))
        found.append(part[:at] + bytes((byte,)) + part[at + 1 :])
    shown = registry.decode(OF_ALL, name, *found)
    text = json.dumps([shown.key, shown.data], ensure_ascii=False)
    assert len(text.encode("utf-8")) < 60 * len(found[0] + found[1]) + 2000


@given(st.integers(0, len(CATALOG)), st.integers(0, 255))
def test_a_changed_catalog_is_read_or_passed_over(at: int, byte: int) -> None:
    changed = CATALOG[:at] + bytes((byte,)) + CATALOG[at + 1 :]
    decoder = DPL.decoder(Given({"persist#shop#com.sleepycat.persist.formats": [(b"k", changed)]}))
    found = registry.decode(decoder, PERSONS, key_of(1), bytes.fromhex(ENTITIES[0]))
    assert json.dumps(found.data, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("value", [b"p", b"t\x00\x01a", STREAM_HEADER + b"p"])
def test_objects_that_are_no_catalog(value: bytes) -> None:
    with pytest.raises(FormatError):
        formats_of(value)
    found = registry.decode(DPL.decoder(Given({FORMATS: [(b"", CATALOG)]})), FORMATS, b"", value)
    assert found == unknown(b"", value)
