"""The words of the grammar in French: what is irregular stands in tables, the rest follows rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """kinds: what the noun may be to a verb. feminine: its gender."""

    singular: str
    feminine: bool
    kinds: tuple[str, ...]

    @property
    def plural(self) -> str:
        return plural(self.singular)


@dataclass(frozen=True)
class Adjective:
    """before: stands before the noun (beauty, age, goodness, size). liaison: the masculine before a vowel."""

    masculine: str
    feminine: str
    before: bool
    liaison: str
    kinds: tuple[str, ...]

    def form(self, feminine: bool, many: bool) -> str:
        form = self.feminine if feminine else self.masculine
        return form if not many or self.masculine == "marron" else plural(form)


@dataclass(frozen=True)
class Verb:
    """present: the forms after je, il, nous, vous, ils (elle is conjugated as il). future: its stem.

    objects: kinds of nouns it takes. goes: needs "to" or "at" a place. gives: takes somebody to give to. animals: they may
    do it. moves: its past has être. still: may have a place.
    """

    present: tuple[str, ...]
    future: str
    participle: str
    objects: tuple[str, ...] = ()
    goes: str = ""
    gives: bool = False
    animals: bool = False
    moves: bool = False
    still: bool = False


def plural(word: str) -> str:
    """The plural of a noun or an adjective."""
    if word in ("hibou",) or word.endswith(("eau", "eu")):
        return word + ("s" if word == "bleu" else "x")
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word if word.endswith(("s", "x", "z")) else word + "s"


ASPIRATED = {"hibou", "hiboux"}
"""Words whose h keeps le, la, de, que whole."""


def is_open(word: str) -> bool:
    """Whether le, je, ne, de and the like lose their vowel before this word."""
    return word[0] in "aàâeéèêiîoôœuh" and word not in ASPIRATED


NOUNS = {
    english: Noun(word, gender == "f", tuple(kinds))
    for english, word, gender, *kinds in (
        line.split()
        for line in """
        man homme m person
        woman femme f person
        boy garçon m person
        girl fille f person
        king roi m person
        queen reine f person
        child enfant m person
        doctor médecin m person
        nurse infirmière f person
        actor acteur m person
        actress actrice f person
        mother mère f person
        father père m person
        sister sœur f person
        brother frère m person
        cat chat m animal
        dog chien m animal
        horse cheval m animal
        bird oiseau m animal
        mouse souris f animal
        owl hibou m animal
        donkey âne m animal
        book livre m thing text
        letter lettre f thing text
        newspaper journal m thing
        car voiture f thing
        key clé f thing
        hat chapeau m thing
        knife couteau m thing
        umbrella parapluie m thing
        tree arbre m thing
        lamp lampe f thing
        clock horloge f thing
        shirt chemise f thing
        apple pomme f food
        orange orange f food
        egg œuf m food
        cake gâteau m food
        pear poire f food
        """.strip().splitlines()
    )
}

ADJECTIVES = {
    english: Adjective(masculine, feminine, side == "<", liaison.strip("-"), tuple(kinds))
    for english, masculine, feminine, side, liaison, *kinds in (
        line.split()
        for line in """
        small petit petite < - person animal thing food
        big gros grosse < - animal thing food
        beautiful beau belle < bel person animal thing
        old vieux vieille < vieil person animal thing
        new nouveau nouvelle < nouvel thing
        young jeune jeune < - person animal
        good bon bonne < - food text
        red rouge rouge > - thing food
        green vert verte > - thing food
        black noir noire > - animal thing
        white blanc blanche > - animal thing
        brown marron marron > - animal thing
        expensive cher chère > - thing
        French français française > - person thing food
        happy heureux heureuse > - person animal
        sad triste triste > - person animal
        sick malade malade > - person animal
        famous célèbre célèbre > - person
        intelligent intelligent intelligente > - person animal
        """.strip().splitlines()
    )
}


def _regular(infinitive: str) -> Verb:
    """A verb in -er (acheter and appeler change their stem, manger keeps its sound) or in -re."""
    stem = infinitive[:-2]
    if infinitive.endswith("re"):
        present = (stem + "s", stem, stem + "ons", stem + "ez", stem + "ent")
        return Verb(present, infinitive[:-1], stem + "u")
    strong = {"achet": "achèt", "appel": "appell"}.get(stem, stem)
    we = stem + ("eons" if stem.endswith("g") else "ons")
    return Verb((strong + "e", strong + "e", we, stem + "ez", strong + "ent"), strong + "er", stem + "é")


_IRREGULAR = {
    parts[0]: Verb(tuple(parts[1:6]), parts[6], parts[7])
    for parts in (
        line.split()
        for line in """
        voir vois voit voyons voyez voient verr vu
        prendre prends prend prenons prenez prennent prendr pris
        suivre suis suit suivons suivez suivent suivr suivi
        envoyer envoie envoie envoyons envoyez envoient enverr envoyé
        écrire écris écrit écrivons écrivez écrivent écrir écrit
        dormir dors dort dormons dormez dorment dormir dormi
        rire ris rit rions riez rient rir ri
        courir cours court courons courez courent courr couru
        partir pars part partons partez partent partir parti
        venir viens vient venons venez viennent viendr venu
        aller vais va allons allez vont ir allé
        être suis est sommes êtes sont ser été
        avoir ai a avons avez ont aur eu
        """.strip().splitlines()
    )
}

_ALL = "person animal thing food"
_USE = (
    ("see", "voir", _ALL, "animals"),
    ("look for", "chercher", _ALL, "animals"),
    ("hear", "entendre", "person animal", "animals"),
    ("follow", "suivre", "person animal", "animals"),
    ("wait for", "attendre", "person animal", "animals"),
    ("love", "aimer", "person animal", "animals"),
    ("call", "appeler", "person", ""),
    ("invite", "inviter", "person", ""),
    ("draw", "dessiner", _ALL, ""),
    ("buy", "acheter", "animal thing food", ""),
    ("take", "prendre", "thing food", ""),
    ("lose", "perdre", "thing animal", ""),
    ("eat", "manger", "food", "animals"),
    ("write", "écrire", "text", ""),
    ("give", "donner", "thing food", "gives"),
    ("show", "montrer", "thing food", "gives"),
    ("sell", "vendre", "thing food animal", "gives"),
    ("send", "envoyer", "thing", "gives"),
    ("bring", "apporter", "thing food", "gives"),
    ("sleep", "dormir", "", "animals still"),
    ("run", "courir", "", "animals still"),
    ("play", "jouer", "", "animals still"),
    ("sing", "chanter", "", "still"),
    ("work", "travailler", "", "still"),
    ("laugh", "rire", "", "still"),
    ("fall", "tomber", "", "animals still moves"),
    ("leave", "partir", "", "animals moves"),
    ("go", "aller", "", "animals moves to"),
    ("come", "venir", "", "animals moves to"),
    ("return", "retourner", "", "animals moves to"),
    ("arrive", "arriver", "", "animals moves at"),
)


def _verb(infinitive: str, objects: str, flags: list[str]) -> Verb:
    base = _IRREGULAR.get(infinitive) or _regular(infinitive)
    goes = next((flag for flag in flags if flag in ("to", "at")), "")
    more = {flag: flag in flags for flag in ("gives", "animals", "moves", "still")}
    return Verb(base.present, base.future, base.participle, tuple(objects.split()), goes, **more)


VERBS = {english: _verb(infinitive, objects, flags.split()) for english, infinitive, objects, flags in _USE}
BE, HAVE = _IRREGULAR["être"], _IRREGULAR["avoir"]
WAS = ("étais", "était", "étions", "étiez", "étaient")
WILL = ("ai", "a", "ons", "ez", "ont")

PLACES = {
    english: (word, gender == "f", tuple(prepositions))
    for english, word, gender, *prepositions in (
        line.split()
        for line in """
        garden jardin m in to near
        house maison f in near behind
        park parc m in to at near
        school école f at to near behind
        church église f in to at near behind
        hotel hôtel m in to at near behind
        station gare f in to at near behind
        market marché m to at near
        bridge pont m on to at near
        beach plage f on to at near
        river rivière f to at near
        tree arbre m under near behind
        shops magasins m to at near
        """.strip().splitlines()
    )
}
PREPOSITIONS = {"in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "near": "près de", "to": "à", "at": "à"}
TIMES = {
    "present": {"today": "aujourd'hui", "every day": "tous les jours", "": ""},
    "past": {"yesterday": "hier", "today": "aujourd'hui", "": ""},
    "future": {"tomorrow": "demain", "tonight": "ce soir", "": ""},
}
DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "some": ("", "", "des"),
    "any": ("", "", "de"),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
}
UNOWNED = {"man", "woman", "boy", "girl"}
"""Nouns that have no owner here: my girl would be my daughter."""
NUMBERS = {"two": "deux", "three": "trois", "four": "quatre"}
