"""The tree of a beam search, read off what the search asks of the model: it needs to know of no one who watches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.inspection.values import Beam, Found, Node


class _State:
    """A decoder's state that tells which row came from which."""

    def __init__(self, its: Any, watch: _Watched) -> None:
        self.its, self.watch = its, watch

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was."""
        self.its.select(rows)
        self.watch.places = [self.watch.places[row] for row in rows.tolist()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.its, name)


class _Watched:
    """A model that remembers what a search of one sentence reads through it.

    places: for each row the node of the token it read last. odds: of each row, log-probabilities after that token.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.nodes: list[dict[str, Any]] = []
        self.known: dict[tuple[int, int], int] = {}
        self.places: list[int] = []
        self.odds: dict[int, Tensor] = {}
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.model(*given, **named)

    def start(self, memory: Any, room: int) -> _State:
        """A state whose moves are noted."""
        self.nodes, self.known, self.places, self.odds, self.steps = [], {}, [], {}, 0
        return _State(self.model.start(memory, room), self)

    def step(self, tokens: Tensor, state: Any, layout: Any = None) -> Tensor:
        """The model's step; what it reads is a new layer of the tree."""
        logits = self.model.step(tokens, state.its, layout)
        log_probs = logits.float().log_softmax(-1)
        if not self.steps:
            self.places = [-1] * len(tokens)
        else:
            self.places = [self._grow(parent, token) for parent, token in zip(self.places, tokens[:, -1].tolist())]
        for row, place in enumerate(self.places):
            self.odds[place] = log_probs[row].cpu()
        self.steps += 1
        return logits

    def _grow(self, parent: int, token: int) -> int:
        place = self.known.get((parent, token))
        return self._add(parent, token, False) if place is None else place

    def _add(self, parent: int, token: int, ended: bool) -> int:
        log_prob = max(float(self.odds[parent][token]), -1e9)
        total = log_prob + (0.0 if parent < 0 else self.nodes[parent]["total"])
        step = 0 if parent < 0 else self.nodes[parent]["step"] + 1
        node = {"step": step, "parent": parent, "token": token, "log_prob": log_prob, "total": total, "ended": ended}
        self.nodes.append(node)
        self.known[parent, token] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def finish(self, ids: list[int]) -> int | None:
        """Add the end of an answer, the end mark if there is one among its ids; its node. None: it was not followed."""
        parent = -1
        for number, token in enumerate(ids):
            place = self.known.get((parent, token))
            if place is None:
                if number < len(ids) - 1 or parent not in self.odds:
                    return None
                place = self._add(parent, token, True)
            parent = place
        return parent


def followed(translator: Any, text: str, search: dict[str, Any]) -> tuple[Beam | None, list[Found]]:
    """The answers to one text, best first, and the tree of the search for them; no tree for samples and greedy search."""
    from regard.decoding.options import search_options
    from regard.decoding.wishes import Wishes

    _, named = Wishes.divided(search)
    options = search_options(translator.search, **named)
    beams = options.method == "beam"
    if beams and options.num_return == translator.search.num_return:
        search = search | {"num_return": options.num_beams}
    watched = _Watched(translator.model)
    watching = type(translator)(watched, translator.tokenizers, translator.search, translator.meta)
    first = watching.translate([text], details=True, **search)[0]
    answers = [first, *first.alternatives]
    found = [
        Found(
            text=one.text,
            ids=one.ids,
            score=one.score,
            log_prob=one.log_prob,
            token_log_probs=one.token_log_probs,
            finished=one.finished,
        )
        for one in answers
    ]
    return (tree(watched, found, options.num_beams, translator.marks()[1]) if beams else None), found


def tree(watched: _Watched, found: list[Found], num_beams: int, eos: int) -> Beam:
    """The nodes of a watched search, with the ends of the answers it gave."""
    ends = [watched.finish([*one.ids, eos] if one.finished else one.ids) for one in found]
    best, place = set(), ends[0] if ends else None
    while place is not None and place >= 0:
        best.add(place)
        place = watched.nodes[place]["parent"]
    parents = {node["parent"] for node in watched.nodes}
    nodes = [Node(**node, kept=n in parents, best=n in best) for n, node in enumerate(watched.nodes)]
    return Beam(num_beams=num_beams, nodes=nodes)
