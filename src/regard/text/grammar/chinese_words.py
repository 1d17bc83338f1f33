"""The words of the grammar in Chinese: nouns with their measure words, adjectives, verbs, places, times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """measure: its measure word. kinds: what the noun may be to a verb."""

    word: str
    measure: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Adjective:
    """before: how it stands before a noun, "" if it does not. after: how it is said of a subject; colours are 红色的 there,
    with 是. states: a mood, which may be yesterday's or tomorrow's."""

    before: str
    after: str
    kinds: tuple[str, ...]
    colour: bool = False
    states: bool = False


@dataclass(frozen=True)
class Verb:
    """word: what 了 follows; tail: what comes after that (唱了歌). objects: kinds of nouns it takes. feels: liking, knowing,
    wanting, which know no 了. reached: seeing and finding, which are in the past or the future here. goes: the English
    preposition of its goal. gives: takes somebody to give to. still: may have a place."""

    word: str
    tail: str = ""
    objects: tuple[str, ...] = ()
    feels: bool = False
    reached: bool = False
    goes: str = ""
    gives: bool = False
    still: bool = False


NOUNS = {
    english: Noun(word, measure, tuple(kinds))
    for english, word, measure, *kinds in (
        line.split()
        for line in """
        man 男人 个 person
        woman 女人 个 person
        boy 男孩 个 person
        girl 女孩 个 person
        child 孩子 个 person
        friend 朋友 个 person
        student 学生 个 person
        singer 歌手 位 person
        teacher 老师 位 person
        doctor 医生 位 person
        driver 司机 位 person
        writer 作家 位 person
        cat 猫 只 animal
        dog 狗 只 animal
        bird 鸟 只 animal
        rabbit 兔子 只 animal
        chicken 鸡 只 animal
        horse 马 匹 animal
        cow 牛 头 animal
        pig 猪 头 animal
        snake 蛇 条 animal
        book 书 本 thing text
        dictionary 词典 本 thing
        letter 信 封 thing text
        car 汽车 辆 thing ware
        bicycle 自行车 辆 thing ware
        chair 椅子 把 thing ware
        knife 刀 把 thing ware
        umbrella 伞 把 thing
        key 钥匙 把 thing
        hat 帽子 顶 thing ware
        shirt 衬衫 件 thing ware
        table 桌子 张 thing ware
        map 地图 张 thing
        pen 笔 支 thing
        flower 花 朵 thing
        skirt 裙子 条 thing ware
        apple 苹果 个 food
        orange 橙子 个 food
        egg 鸡蛋 个 food
        cake 蛋糕 块 food
        banana 香蕉 根 food
        """.strip().splitlines()
    )
}

ADJECTIVES = {
    "big": Adjective("大", "大", ("animal", "thing", "food")),
    "small": Adjective("小", "小", ("animal", "thing", "food")),
    "new": Adjective("新", "新", ("thing",)),
    "old": Adjective("旧", "旧", ("thing", "animal")),
    "red": Adjective("红", "红色", ("thing", "food"), colour=True),
    "green": Adjective("绿", "绿色", ("thing", "food"), colour=True),
    "blue": Adjective("蓝", "蓝色", ("thing",), colour=True),
    "yellow": Adjective("黄", "黄色", ("thing", "food"), colour=True),
    "black": Adjective("黑", "黑色", ("animal", "thing"), colour=True),
    "white": Adjective("白", "白色", ("animal", "thing"), colour=True),
    "expensive": Adjective("贵的", "贵", ("thing", "food")),
    "cheap": Adjective("便宜的", "便宜", ("thing", "food")),
    "beautiful": Adjective("漂亮的", "漂亮", ("thing", "animal")),
    "cute": Adjective("可爱的", "可爱", ("animal",)),
    "clever": Adjective("聪明的", "聪明", ("person", "animal")),
    "young": Adjective("年轻的", "年轻", ("person",)),
    "famous": Adjective("有名的", "有名", ("person",)),
    "kind": Adjective("善良的", "善良", ("person",)),
    "happy": Adjective("", "高兴", ("person",), states=True),
    "sad": Adjective("", "难过", ("person",), states=True),
    "tired": Adjective("", "累", ("person", "animal"), states=True),
    "busy": Adjective("", "忙", ("person",), states=True),
    "angry": Adjective("", "生气", ("person",), states=True),
}
OLD_ANIMAL = "老"
"""What "old" is of an animal; a thing is 旧."""

VERBS = {
    "like": Verb("喜欢", objects=("person", "animal", "thing", "food"), feels=True),
    "want": Verb("想要", objects=("animal", "thing", "food"), feels=True),
    "know": Verb("认识", objects=("person",), feels=True),
    "need": Verb("需要", objects=("thing",), feels=True),
    "see": Verb("看见", objects=("person", "animal", "thing", "food"), reached=True),
    "find": Verb("找到", objects=("person", "animal", "thing"), reached=True),
    "look for": Verb("找", objects=("person", "animal", "thing")),
    "wait for": Verb("等", objects=("person",)),
    "help": Verb("帮助", objects=("person",)),
    "thank": Verb("感谢", objects=("person",)),
    "visit": Verb("拜访", objects=("person",)),
    "invite": Verb("邀请", objects=("person",)),
    "buy": Verb("买", objects=("animal", "thing", "food")),
    "sell": Verb("卖", objects=("animal", "thing", "food")),
    "take": Verb("拿", objects=("thing", "food")),
    "draw": Verb("画", objects=("person", "animal", "thing", "food")),
    "wash": Verb("洗", objects=("ware",)),
    "clean": Verb("擦", objects=("ware",)),
    "write": Verb("写", objects=("text",)),
    "eat": Verb("吃", objects=("food",)),
    "give": Verb("给", objects=("thing", "food", "animal"), gives=True),
    "send": Verb("寄给", objects=("thing",), gives=True),
    "lend": Verb("借给", objects=("thing",), gives=True),
    "work": Verb("工作", still=True),
    "rest": Verb("休息", still=True),
    "study": Verb("学习", still=True),
    "sing": Verb("唱", "歌", still=True),
    "dance": Verb("跳", "舞", still=True),
    "swim": Verb("游", "泳"),
    "cry": Verb("哭", still=True),
    "go": Verb("去", goes="to"),
    "arrive": Verb("到", goes="at", reached=True),
    "return": Verb("回到", goes="to", reached=True),
}

PLACES = {
    english: (word, tuple(prepositions))
    for english, word, *prepositions in (
        line.split()
        for line in """
        park 公园 in to at near
        garden 花园 in to
        shop 商店 in to at near behind
        restaurant 饭馆 in to at near behind
        library 图书馆 in to at near behind
        school 学校 in to at near behind
        hospital 医院 in to at near behind
        museum 博物馆 in to at near behind
        kitchen 厨房 in to
        station 车站 in to at near behind
        bank 银行 to at near behind
        market 市场 to at near
        hotel 酒店 in to at near behind
        """.strip().splitlines()
    )
}
PREPOSITIONS = {"in": "里", "near": "附近", "behind": "后面"}
TIMES = {
    "present": {"every day": "每天", "": ""},
    "progressive": {"": ""},
    "past": {"yesterday": "昨天", "last week": "上周", "": ""},
    "future": {"tomorrow": "明天", "tonight": "今晚", "": ""},
}
PRONOUNS = {"I": "我", "you": "你", "he": "他", "she": "她", "we": "我们", "they": "他们"}
OWNERS = {"my": "我的", "your": "你的", "his": "他的", "her": "她的", "our": "我们的", "their": "他们的"}
UNOWNED = {"man", "woman", "boy", "girl"}
"""Nouns that have no owner here."""
NUMBERS = {"two": "两", "three": "三", "four": "四"}
