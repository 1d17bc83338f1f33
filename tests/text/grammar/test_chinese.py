"""Translations written by hand, one phenomenon of Chinese each."""

from __future__ import annotations

import random

import pytest

from regard.text.grammar import chinese, english
from regard.text.grammar.english import Clause, Phrase, Pronoun

I, YOU, HE, SHE, WE, THEY = (Pronoun(word) for word in ("I", "you", "he", "she", "we", "they"))


def one(noun: str, determiner: str = "the", *adjectives: str) -> Phrase:
    return Phrase(noun, determiner, False, adjectives)


def many(noun: str, determiner: str = "the", *adjectives: str, number: str = "") -> Phrase:
    return Phrase(noun, determiner, True, adjectives, number)


CASES = [
    # Measure words, pointers, numbers, owners
    (Clause(one("boy"), "like", object=one("dog", "this")), "The boy likes this dog.", "那个男孩喜欢这只狗。"),
    (Clause(one("teacher"), "buy", "past", object=one("horse", "a")), "The teacher bought a horse.", "那位老师买了一匹马。"),
    (Clause(many("student"), "need", object=many("book", "some")), "The students need some books.", "那些学生需要一些书。"),
    (Clause(SHE, "draw", "past", object=many("car", "", number="two")), "She drew two cars.", "她画了两辆汽车。"),
    (Clause(SHE, "wash", "past", object=many("knife", "the", number="three")), "She washed the three knives.",
     "她洗了那三把刀。"),
    (Clause(one("friend", "my"), "eat", "past", object=one("cake", "your")), "My friend ate your cake.",
     "我的朋友吃了你的蛋糕。"),
    (Clause(HE, "sell", "past", object=many("skirt", "their", "red", number="four")), "He sold their four red skirts.",
     "他卖了他们的四条红裙子。"),
    # Adjectives before nouns
    (Clause(I, "want", object=one("cat", "a", "small", "black")), "I want a small black cat.", "我想要一只小黑猫。"),
    (Clause(I, "want", object=one("hat", "this", "beautiful")), "I want this beautiful hat.", "我想要这顶漂亮的帽子。"),
    (Clause(I, "see", "past", object=one("dog", "a", "old")), "I saw an old dog.", "我看见了一只老狗。"),
    (Clause(I, "see", "past", object=one("bicycle", "a", "old")), "I saw an old bicycle.", "我看见了一辆旧自行车。"),
    # Present, going on, past, future; their denials
    (Clause(one("doctor"), "work", negative=True), "The doctor does not work.", "那位医生不工作。"),
    (Clause(one("child"), "sing", "progressive"), "The child is singing.", "那个孩子正在唱歌。"),
    (Clause(one("child"), "sing", "progressive", place=("in", "garden")), "The child is singing in the garden.",
     "那个孩子正在花园里唱歌。"),
    (Clause(one("child"), "sing", "past", place=("in", "garden")), "The child sang in the garden.",
     "那个孩子在花园里唱了歌。"),
    (Clause(WE, "clean", "progressive", True, object=many("chair")), "We are not cleaning the chairs.",
     "我们没在擦那些椅子。"),
    (Clause(WE, "buy", "past", True, object=one("apple", "a", "green")), "We did not buy a green apple.",
     "我们没买绿苹果。"),
    (Clause(WE, "buy", "past", True, object=many("flower", "any")), "We did not buy any flowers.", "我们没买花。"),
    (Clause(THEY, "visit", "future", object=SHE, time="tomorrow"), "They will visit her tomorrow.", "他们明天会拜访她。"),
    (Clause(YOU, "dance", "future", True, place=("behind", "school")), "You will not dance behind the school.",
     "你不会在学校后面跳舞。"),
    (Clause(SHE, "study", place=("near", "station"), time="every day"), "She studies near the station every day.",
     "她每天在车站附近学习。"),
    # Goals and receivers
    (Clause(THEY, "go", "past", place=("to", "hospital"), time="yesterday"), "They went to the hospital yesterday.",
     "他们昨天去了医院。"),
    (Clause(one("driver"), "arrive", "past", True, place=("at", "bank")), "The driver did not arrive at the bank.",
     "那位司机没到银行。"),
    (Clause(HE, "give", "past", object=one("letter", "a"), recipient=I), "He gave a letter to me.", "他给了我一封信。"),
    (Clause(HE, "lend", "future", True, object=one("pen", "his"), recipient=many("girl")),
     "He will not lend his pen to the girls.", "他不会借给那些女孩他的笔。"),
    # Questions
    (Clause(YOU, "know", question="yes", object=one("singer", "this")), "Do you know this singer?", "你认识这位歌手吗？"),
    (Clause(SHE, "find", "past", question="yes", object=one("key", "her")), "Did she find her key?", "她找到了她的钥匙吗？"),
    (Clause(None, "take", "past", question="who", object=one("umbrella")), "Who took the umbrella?", "谁拿了那把伞？"),
    (Clause(SHE, "look for", "progressive", question="what"), "What is she looking for?", "她正在找什么？"),
    (Clause(SHE, "rest", question="where"), "Where does she rest?", "她在哪里休息？"),
    (Clause(HE, "go", "past", True, "why", place=("to", "school"), time="yesterday"),
     "Why did he not go to the school yesterday?", "他昨天为什么没去学校？"),
    # To be
    (Clause(one("girl"), "be", adjective="happy"), "The girl is happy.", "那个女孩很高兴。"),
    (Clause(one("girl"), "be", negative=True, adjective="happy"), "The girl is not happy.", "那个女孩不高兴。"),
    (Clause(many("apple"), "be", question="yes", adjective="expensive"), "Are the apples expensive?", "那些苹果贵吗？"),
    (Clause(one("shirt", "my"), "be", negative=True, adjective="blue"), "My shirt is not blue.", "我的衬衫不是蓝色的。"),
    (Clause(one("cow"), "be", adjective="old"), "The cow is old.", "那头牛很老。"),
    (Clause(one("table"), "be", adjective="old"), "The table is old.", "那张桌子很旧。"),
    (Clause(I, "be", "past", adjective="busy", time="yesterday"), "I was busy yesterday.", "我昨天很忙。"),
    (Clause(WE, "be", "future", True, adjective="tired", time="tomorrow"), "We will not be tired tomorrow.",
     "我们明天不会很累。"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "source", "target"), CASES, ids=[source for _, source, _ in CASES])
def test_hand_written_translations(clause, source, target):
    assert english.say(clause) == source
    assert chinese.say(clause) == target


def test_nobody_likes_himself_under_another_name():
    """我喜欢我 and the like are not drawn."""
    rng = random.Random(1)
    for _ in range(4_000):
        clause = chinese.draw(rng)
        for other in (clause.object, clause.recipient):
            if isinstance(other, Pronoun) and isinstance(clause.subject, Pronoun):
                words = {clause.subject.word, other.word}
                assert len(words) == 2 or clause.subject.word in ("he", "she", "they")
                assert words != {"I", "we"}


def test_the_bound_counts_sentences_that_can_be_told_apart():
    """A past form is no word of a noun phrase, so it parts the two phrases that the count multiplies."""
    pasts = {english.past(verb).split()[0] for verb in chinese.VERBS}
    assert not pasts & chinese.words()
    assert len({english.past(verb) for verb in chinese.VERBS}) == len(chinese.VERBS)
    assert chinese.bound() > 100_000


def test_phrases_are_one_string_for_one_choice():
    """What the bound takes for granted, by listing every phrase that it counts."""
    phrases = [
        Phrase(noun, determiner, plural, adjectives)
        for noun in chinese.NOUNS
        for adjectives in ((), *((name,) for name in sum(chinese._fitting(noun), ())))
        for determiner in ("the", "this", *(() if noun in chinese.UNOWNED else chinese.OWNERS))
        for plural in (False, True)
    ]
    assert len({english.phrase(phrase) for phrase in phrases}) == len(phrases)
    verbs = [verb for verb in chinese.VERBS.values() if not verb.gives and not verb.feels]
    kinds = {noun: its.kinds[0] for noun, its in chinese.NOUNS.items()}
    persons = sum(kinds[phrase.noun] == "person" for phrase in phrases)
    assert chinese.bound() == persons * sum(kinds[phrase.noun] in verb.objects for verb in verbs for phrase in phrases)
