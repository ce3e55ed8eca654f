"""Words of Derby's messages in other languages of Europe and America that identify the code if the text lacks it.

The words occur in this order in a message with the code; … stands for any text between them. In any text, words count
only if a name from Derby is among them. Other words are in ``derby_european_sql``.
"""

from __future__ import annotations

from typing import Final

EUROPEAN: Final[dict[str, tuple[str, ...]]] = {
    "XSAI2": (
        "Das angeforderte Konglomerat (…) ist",
        "El conglomerado (…) solicitado no existe",
        "Il conglomerato (…) richiesto non esiste",
        "Żądany konglomerat (…) nie istnieje",
        "O conglomerado requisitado (…) não existe",
        "Затребованный конгломерат … не существует",
    ),
    "XSDB1": (
        "Neznámý formát stránky na stránce Page(",
        "Unbekanntes Seitenformat auf der Seite Page(",
        "Formato de página desconocido en la página Page(",
        "Format de page inconnu à la page Page(",
        "Ismeretlen oldalformátum a(z) Page(… oldalon",
        "Formato pagina sconosciuto alla pagina Page(",
        "Nieznany format strony na stronie Page(",
        "Formato de página desconhecido na página Page(",
        "Неизвестный формат страницы на странице Page(",
    ),
    "XSDB2": (
        "Neznámý formát kontejneru v kontejneru Container(",
        "Unbekanntes Containerformat bei Container Container(…: ",
        "Formato de contenedor desconocido en el contenedor Container(",
        "Format de conteneur inconnu au niveau du conteneur Container(",
        "Ismeretlen tárolóformátum az() Container(… tárolón",
        "Formato contenitore sconosciuto nel contenitore Container(",
        "Nieznany format kontenera w kontenerze Container(",
        "Formato de contêiner desconhecido no contêiner Container(",
        "Неизвестный формат контейнера в контейнере Container(",
    ),
    "XSDB6": (
        "Puede que otra instancia de Derby haya",
        "Lehetséges, hogy a Derby egy másik",
        "Un'altra istanza di Derby potrebbe",
        "Inna instancja bazy danych Derby mogła",
        "Outra instância do Derby já pode ter",
        "Возможно, другой экземпляр Derby уже",
    ),
    "XSDB9": (
        "Kontejner toku dat Container(… je porušen",
        "Stream-Container Container(… ist beschädigt",
        "El contenedor de flujo Container(… está corrupto",
        "Le conteneur de flux Container(… est endommagé",
        "A(z) Container(… adatfolyam-tároló sérült",
        "Il contenitore di flusso Container(… è corrotto",
        "Kontener strumienia Container(… jest uszkodzony",
        "O contêiner de fluxo Container(… está corrompido",
        "Контейнер потоков Container(… поврежден",
    ),
    "XSDBB": (
        "Unbekanntes Seitenformat auf der Seite Page(…, Seitenspeicherauszug",
        "Formato de página desconocido en la página Page(…, se realizará un volcado",
        "Format de page inconnu à la page Page(…, vidage de la page",
        "Formato pagina sconosciuto alla pagina Page(…, segue il",
    ),
    "XSDG0": (
        "Stránka Page(… nebyla načtena z disku",
        "Seite Page(… konnte nicht vom Datenträger",
        "No se ha podido leer la página Page(",
        "Impossible de lire la page Page(… à partir du",
        "A(z) Page(… oldal nem olvasható be a",
        "Impossibile leggere la pagina Page(… dal disco",
        "Nie można odczytać strony Page(… z dysku",
        "A página Page(… não pôde ser lida a",
        "Не удалось прочитать страницу Page(… с диска",
    ),
    "XSDG1": (
        "Stránka Page(… nebyla zapsána na disk",
        "Seite Page(… konnte nicht auf den Datenträger",
        "No se ha podido escribir la página Page(",
        "La page Page(… n'a pas pu être écrite",
        "A(z) Page(… oldal nem írható ki a lemezre",
        "Impossibile scrivere la pagina Page(… sul disco",
        "Nie można zapisać strony Page(… na dysku",
        "A página Page(… não pôde ser escrita",
        "Не удалось записать страницу Page(… на диск",
    ),
    "XSDG2": (
        "Neplatný kontrolní součet na stránce Page(",
        "Ungültige Prüfsumme auf der Seite Page(",
        "Suma de comprobación no válida en la página Page(",
        "Total de contrôle non valide dans la page Page(",
        "Érvénytelen ellenőrző összeg a(z) Page(… oldalon, várt=",
        "Checksum non valido sulla Pagina Page(",
        "Niepoprawna suma kontrolna na stronie Page(",
        "Checksum inválido na página Page(…, esperado=",
        "Неверная контрольная сумма на странице Page(",
    ),
}
