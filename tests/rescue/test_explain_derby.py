"""``explain``: Derby's own messages, as its jars have them, without their codes."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest

from engine.rescue.explanation import ExplainedMessage, explain
from engine.rescue.messages.derby_asian import ASIAN, ASIAN_OF_SQL
from engine.rescue.messages.derby_english import ENGLISH, OF_DERBY_ALONE, OF_SQL
from engine.rescue.messages.derby_european import EUROPEAN
from engine.rescue.messages.derby_european_sql import EUROPEAN_OF_SQL
from engine.rescue.messages.record import CHECK, GOES_ON, INVALID, NODE, NONE, NOT_OPEN
from engine.rescue.messages.table import BY_WORD, OF_DERBY
from tests.support.tools import DERBY_JAR, needs

CODES = [known.word for known in OF_DERBY if len(known.word) == 5]
# Codes and messages that have no words of their own, as engine.rescue.messages.derby_english says.
WORDLESS = {"XSCB0", "XSCB1", "XSCH0", "XSCH1"}
WORDLESS_MESSAGES = {"08001.C.3", "08006.C.2", "08006.C.6", "08006.C.8", "08006.D.1", "XJ081.S"}
LANGUAGES = ("cs", "de_DE", "es", "fr", "hu", "it", "ja_JP", "ko_KR", "pl", "pt_BR", "ru", "zh_CN", "zh_TW")
SQL = "java.sql.SQLException: "
FRAME = "\tat org.apache.derby.impl.jdbc.SQLExceptionFactory.getSQLException(Unknown Source)"
PAGE, CONTAINER = "Page(3,Container(0, 1072))", "Container(0, 1072)"
ARGUMENTS = ((PAGE, CONTAINER, "17"), (CONTAINER, "/data/ba se", "17"), ("derby.x", "17", CONTAINER))


@cache
def messages_of(jar: Path) -> dict[str, str]:
    """The messages of a jar of Derby by their ids: templates of Java's MessageFormat."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"org/apache/derby/loc/m\d+_\w+\.properties", name):
                lines = re.sub(r"\\\r?\n[ \t]*", "", archive.read(name).decode("latin-1")).splitlines()
                pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
                found.update((key.strip(), _unescaped(value)) for key, _, value in pairs)
    return found


def _unescaped(value: str) -> str:
    value = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), value)
    return re.sub(r"\\(.)", r"\1", value.replace("\\n", "\n").replace("\\t", "\t"))


def filled(template: str, arguments: tuple[str, ...]) -> str:
    """A template with invented arguments, as MessageFormat makes it."""
    values = list(islice(cycle(arguments), 20))
    parts = re.split(r"(''|'[^']*'|\{\d+[^}]*\})", template)
    return "".join(
        "'"
        if part == "''"
        else values[int(re.findall(r"\d+", part)[0])]
        if part[:1] == "{"
        else part[1:-1]
        if part[:1] == "'" and part[-1:] == "'" and len(part) > 1
        else part
        for part in parts
    )


def forms(text: str) -> Iterator[tuple[str, ...]]:
    """A message as it is pasted: alone, after the class of its exception, with frames of Derby."""
    yield tuple(text.splitlines())
    yield tuple((SQL + text).splitlines())
    yield (*(SQL + text).splitlines(), FRAME)


def words(lines: tuple[str, ...]) -> list[str]:
    return [one.word for one in explain(lines) if one.known is not None]


def only(text: str) -> ExplainedMessage:
    (found,) = explain(text.splitlines())
    return found


def of_code(code: str, messages: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in messages.items() if name.split(".")[0] == code}


@pytest.mark.parametrize("code", CODES)
def test_each_text_gives_the_entry_of_its_code(code: str) -> None:
    needs("Derby")
    texts = of_code(code, messages_of(DERBY_JAR))
    assert texts
    anywhere = code in ENGLISH and code not in OF_SQL and code not in OF_DERBY_ALONE and len(texts) == 1
    for name, template in texts.items():
        for arguments in ARGUMENTS:
            text = filled(template, arguments)
            # This would look like a frame of a stack trace; real messages have a path there.
            if " at Container(" in text or " at Page(" in text:
                continue
            alone, of_sql, of_derby = (words(lines) for lines in forms(text))
            if code in WORDLESS or name in WORDLESS_MESSAGES:
                assert (alone, of_sql, of_derby) == ([], [], ["exception of Java in Derby"]), name
                continue
            with_code = only(f"ERROR {code}: {text}")
            assert (of_derby, with_code.word, with_code.known) == ([code], code, BY_WORD[code]), name
            if code in OF_SQL:
                assert of_sql == [code] or code in OF_DERBY_ALONE or code in ENGLISH, name
            if anywhere:
                assert (alone, of_sql) == ([code], [code]), name
            assert alone in ([], [code]), name
            assert of_sql in ([], [code]), name


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_no_text_gives_the_entry_of_another_code(language: str) -> None:
    needs("Derby" if language == "en" else "Derby's languages")
    jar = DERBY_JAR if language == "en" else DERBY_JAR.with_name(f"derbyLocale_{language}.jar")
    messages = messages_of(jar)
    assert len(messages) > 1000
    known = set()
    for name, template in messages.items():
        code = name.split(".")[0]
        for lines in forms(filled(template, ARGUMENTS[0])):
            found = words(lines)
            assert found in ([], [code], ["exception of Java in Derby"], ["stack trace"]), (name, lines)
            known.update(set(found) & {code})
    assert len(known & set(CODES)) >= (190 if language == "en" else 40)


@pytest.mark.parametrize(
    ("table", "start", "rest"),
    [
        (ENGLISH, "", ""), (EUROPEAN, "", ""), (ASIAN, "", ""), (ENGLISH, SQL, ""), (OF_SQL, SQL, ""),
        (EUROPEAN_OF_SQL, SQL, ""), (ASIAN_OF_SQL, SQL, ""), (OF_SQL, "", FRAME), (OF_DERBY_ALONE, SQL, FRAME),
        (OF_DERBY_ALONE, "org.apache.derby.client.am.SqlException: ", ""),
        (OF_SQL, "org.springframework.dao.DataAccessException: x\n\tat org.example.Main.main(Main.java:1)\nCaused by: ",
         FRAME),
    ],
)  # fmt: skip
def test_words_where_they_count(table: dict[str, tuple[str, ...]], start: str, rest: str) -> None:
    for code, signs in table.items():
        for sign in signs:
            found = only(f"{start}{sign.replace(chr(0x2026), ' x ')} x.\n{rest}")
            assert (found.word, found.known) == (code, BY_WORD[code]), sign


@pytest.mark.parametrize("table", [OF_SQL, OF_DERBY_ALONE, EUROPEAN_OF_SQL, ASIAN_OF_SQL])
def test_words_where_they_do_not_count(table: dict[str, tuple[str, ...]]) -> None:
    for signs in table.values():
        for sign in signs:
            text = f"{sign.replace(chr(0x2026), ' x ')} x."
            for start in ("", "java.io.IOException: ", "com.ibm.db2.jcc.am.DisconnectException: "):
                assert explain([start + text, "\tat org.example.Main.main(Main.java:1)"]) == [], text
    for signs in OF_DERBY_ALONE.values():
        for sign in signs:
            assert explain([SQL + sign]) == [], sign


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException: Database 'sales' not found;",
        "com.ibm.db2.jcc.b.DisconnectException: Insufficient data while reading from the network - expected a minimum "
        "of 6 bytes and received only -1 bytes. The connection has been terminated.",
        "java.lang.IllegalStateException: Failed to start database 'h2' on port 9092",
        "Cannot flush the log file to disk: no space", "Cannot recover the database. Restore it from a backup",
        "Cannot rollback transaction: connection is closed", "Unable to rename file 'a.tmp' to 'a.txt'",
        "offset 4096, which is beyond the end of the file", "see nested error for more information",
        "An exception was thrown during transaction commit; retrying", "Required property 'db.url' has not been set",
        "Unsupported upgrade from '1.2' to '3.0'", "Cannot create log file at directory /var/log/app",
        "Cannot create segment 17 of topic a", "Stream container mp4 is corrupt", "Unknown page format at page 3",
        "Page 7 could not be read from disk by the scanner", "Container web has been closed. Container has been closed",
        "drop the schema and try creating the database again", "The disk or file system has failed its check",
        "Failed to start encryption of volume data", "An exception was thrown while loading class org.example.Plugin",
        "Unable to copy file a, check for enough space and quota", "write to a read only database file",
        "Error encountered in log file parser", "Record 5 on page 3 in container web not found",
        "System encountered error while processing page 3", "File a removed. The exception was ignored",
        "Base de données MySQL introuvable", "Nelze soubor přejmenovat", "Aucune clé n'a été inscrite",
        "kann die Datei nicht umbenannt werden", "Banco de dados não encontrado", "无法将文件刷新", "无法恢复数据库",
        "Stream 3 closed, Container web stopped", "Start der Datenbank: kann nicht wiederholt werden",
        "java.sql.SQLException: User id can not be null", "java.sql.SQLException: Login timeout exceeded",
        "java.sql.SQLFeatureNotSupportedException: Feature not implemented.", "XA protocol violation",
        "Connection refused : localhost", "Login timeout exceeded.", "ShutdownException: the pool is shut down",
        "org.example.ShutdownException: x", "com.example.db.ShutdownException: agentThread",
        # A lock, a pool, a backup, a replica of any program.
        "lock could not be obtained within the timeout of 30 s", "Failed to acquire resources for sort of 2 GB",
        "Cannot start replication slave mode for channel 'group_replication_applier'",
        "Failover performed successfully for cluster prod-1, the database has been promoted",
        "Error while performing failover for database 'orders' by patroni", "Replicated database 'a' shutdown complete",
        "Connection lost for replicated database 'orders', retrying", "Expected log record length 48, got 12",
        "Error: Error connecting to server db1 on port 5432 with message Connection refused",
        "error while writing to the backup container https://blob.example: 403", "Cannot redo operation 5 in the log.",
        "Dropped 3 indexes on the table. Index ix_a remains", "Creating database with logging disabled",
        "Connection authentication failure occurred for user root", "log factory has been stopped",
        "Replication stopped because it is in replication slave mode",
        # In other languages.
        "Impossibile modificare le informazioni del profilo",
        "Errore rilevato durante il tentativo di accesso a Tomcat",
        "Não foi possível encontrar o arquivo /etc/hosts", "Nie można zapisać lub zaktualizować profilu",
        "Container web kann nicht geöffnet werden", "Datenbank 'mysql' konnte nicht erstellt werden",
        "Transaktion 17 kann nicht zurückgesetzt werden", "Les informations relatives au conteneur web sont absentes",
        "La información del contenedor no se ha encontrado", "Odtwarzanie nie powiodło się z powodu braku miejsca",
        "El archivo de control en /u01/control.ctl no se puede abrir", "データベース・リカバリ中に停止しました",
        "トランザクション・リカバリを開始します", "データベース・ディレクトリ'/var/lib/mysql'が存在します",
        "日志已损坏，日志流中具有多个错误", "启动失败。没有正确的引导文件", "在数据库恢复期间尝试将数据写入",
        "로그 파일 /var/log/messages을(를) 찾을 수 없습니다",
        # Other drivers of JDBC: the words of a message of Derby's, but not from its beginning.
        "java.sql.SQLException: ORA-01130: fichier créé par une version ultérieure",
        "java.sql.SQLException: ORA-00210: el disco o sistema de archivos ha fallado",
        "java.sql.SQLException: ORA-19870: 文件 7 无法访问",
        "java.sql.SQLException: Seite 3: die Datenbank wurde mit der Version 8",
        "java.sql.SQLException: Não foi possível criar o arquivo de controle",
        "java.sql.SQLException: Não foi possível encontrar o arquivo de controle",
    ],
)  # fmt: skip
def test_lines_of_other_programs(line: str) -> None:
    assert explain([line]) == []
    assert explain([line, "\tat org.example.Main.main(Main.java:1)"]) == []
    assert explain([f"2026-11-22 03:00:00 ERROR [main] {line}"]) == []


@pytest.mark.parametrize("table", [EUROPEAN, ASIAN])
def test_words_that_count_anywhere_have_a_name_of_derby(table: dict[str, tuple[str, ...]]) -> None:
    for signs in table.values():
        for sign in signs:
            assert re.search(r"Derby|(?:Page|Container)\(|[ck]onglom|конгломерат", sign, re.IGNORECASE), sign


def test_only_a_message_that_begins_with_an_argument_has_words_that_do_not_begin_it() -> None:
    needs("Derby", "Derby's languages")
    jars = [DERBY_JAR, *(DERBY_JAR.with_name(f"derbyLocale_{language}.jar") for language in LANGUAGES)]
    every = [messages_of(jar) for jar in jars]
    for table in (OF_SQL, EUROPEAN_OF_SQL, ASIAN_OF_SQL):
        for code, signs in table.items():
            texts = [text for messages in every for text in of_code(code, messages).values()]
            for sign in signs:
                if sign.startswith("\u2026"):
                    first = re.escape(sign.split("\u2026")[1]).replace("'", "''?")
                    assert any(re.match(r"\{\d\}.*" + first, text, re.DOTALL) for text in texts), (code, sign)


SHUTDOWN = "org.apache.derby.iapi.error.ShutdownException: agentThread[DRDAConnThread_5,5,derby.daemons]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHUTDOWN, ("ShutdownException", NODE, INVALID)),
        ("org.apache.derby.shared.common.error.ShutdownException", ("ShutdownException", NODE, INVALID)),
        (f"Exception in thread \"x\" {SHUTDOWN}\n{FRAME}", ("ShutdownException", NODE, INVALID)),
        # Another message of the same exception is the cause, wherever it stands.
        (f"{SHUTDOWN}\n{FRAME}\nCaused by: ERROR XSDG9: x", ("XSDG9", NODE, INVALID)),
        (f"{SQL}Database 'x' shutdown.\n{FRAME}\nCaused by: {SHUTDOWN}", ("08006", NONE, INVALID)),
        ("java.lang.IllegalStateException: Environment is closed.", ("environment closed twice", NONE, INVALID)),
        ("Exception in thread \"main\" java.lang.IllegalStateException: Environment is closed.",
         ("environment closed twice", NONE, INVALID)),
        ("java.lang.IllegalStateException: Database is closed. State=CLOSED", ("IllegalStateException of JE", CHECK,
                                                                              None)),
        (f"{SQL}Unknown page format at page {PAGE}, page dump follows: 00", ("XSDBB", "data", INVALID)),
        (f"{SQL}There is no index or conglomerate with conglomerate id '7' to drop.", ("XSAM2", "data", GOES_ON)),
        (f"{SQL}Failed to create database '/d', see the next exception for details.\n{FRAME}\nCaused by: {SQL}"
         f"Directory /d cannot be created.\n{FRAME}", ("XBM0H", NODE, NOT_OPEN)),
    ],
)  # fmt: skip
def test_which_message_decides(text: str, expected: tuple[str, str, str | None]) -> None:
    found = only(text)
    assert (found.word, found.known and found.known.risk, found.environment) == expected


@pytest.mark.parametrize(
    "line",
    [
        "java.lang.IllegalStateException: Environment is closed. Cannot deploy", "Environment is closed.",
        "java.lang.IllegalStateException: Environment is closed",
        "org.example.IllegalStateException: Environment is closed.",
        "java.lang.IllegalStateException: Environment is closed.\n\tat org.example.Lab.open(Lab.java:1)",
    ],
)  # fmt: skip
def test_closed_things_of_other_programs(line: str) -> None:
    assert explain(line.splitlines()) == []


def test_an_exception_without_frames_in_a_log_of_another_program() -> None:
    many = [f"2026-11-22 03:00:0{at % 10},123 INFO all is well {at}" for at in range(100)]
    line = "java.lang.IllegalStateException: Environment is closed."
    assert explain([*many, line]) == []
