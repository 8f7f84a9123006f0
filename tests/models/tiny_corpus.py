"""Text for the tiny tokenizer, made up here from word lists and templates: needs no download.

The lists only have to be wide enough that byte pair encoding learns whole words, their inflections
and their `snake_case` and `"quoted` forms, and that JSON's closers meet often enough to merge.
"""

import json
import random
from collections.abc import Callable, Iterator


def words(text: str) -> list[str]:
    return text.split()


NOUNS = """
ability access account accuracy action activity actor address adult advice age agency agent air
airline airport alarm album algorithm amount analysis animal answer apartment app apple appointment
approach area argument arm array article artist aspect asset attempt attribute audience audio author
authority average baby back bag balance ball band bank bar base basis basket bathroom battery beach
bed bedroom behaviour benefit bike bill bird birth birthday block blood board boat body bonus book
booking border bottle bottom box boy branch brand bread break breakfast bridge brother browser
budget bug builder building bus business button buyer cable calculation calculator calendar call
camera camp campaign cancer capacity capital car carbon card care career case cash cat category
cause celsius cell cent center centimeter century chain chair challenge champion chance change
channel chapter character charge chart check chemical chicken child choice church circle circuit
citizen city claim class classification client climate clock cloud club code coefficient coffee coin
collection college color column combination command comment commission committee community company
comparison competition component computer concept condition conference confirmation connection
constant contact container content context contract control conversation converter cookie coordinate
copy corner cost count counter country couple course court cover credit crime criteria crop crowd
cup currency current customer cycle dark dashboard data database date daughter day deadline deal
death debt decade decision default definition degree delay delivery demand density department
departure deposit depth description design desk destination detail development device diagram
dictionary difference dimension dinner direction director directory discount discussion disease dish
disk distance distribution district doctor document dog dollar domain door download draft dream
dress drink drive driver duration duty earth east economy edge edition editor education effect
efficiency effort electricity element email emergency employee end energy engine engineer entity
entry environment equation equipment error estate estimate euro evening event evidence example
exchange exercise expense experience expert expiration expression extension eye face fact factor
factory fahrenheit failure fall family fan farm father fault feature fee feedback field figure file
film filter finance finger fire firm fish flag flight floor flow flower fluid folder food foot
football force forecast forest form format formula forward foundation fraction frame framework
freedom frequency friend fruit fuel function fund future game garden gas gate gender gene generation
genre geography gift girl glass goal gold government gram grade graph grass ground group growth
guest guide guitar habit hair half hall hand handle hardware head header health heart heat height
help hero highway hill history holiday home horse hospital host hotel hour house human humidity
husband ice icon idea identifier image impact income increase index individual industry inflation
influence information ingredient input insight instance institution instruction instructor
instrument insurance integer interest interface internet interval interview inventory investment
invoice island issue item job journal journey judge juice key keyboard keyword kilogram kilometer
kind king kitchen knowledge label laboratory lake land landmark language laptop latitude law lawyer
layer leader league lease leave lecture left leg length lesson letter level library license life
light limit line link liquid list literature liter load loan location lock log longitude loss love
lunch machine magazine mail majority makeup man manager manner map margin market marriage mass match
material math matrix matter maximum meal meaning measure measurement meat mechanism media medicine
medium meeting member memory menu message metal meter method metric middle midnight mile milk
million mind mineral minimum minute mirror mission mistake mode model module molecule moment money
monitor month moon morning mortgage mother motion motor mountain mouse mouth movement movie museum
music name nation nature neighbor network news newspaper night node noise north note notebook
notification number object objective ocean offer office officer oil operation operator opinion
option orange order organization origin outcome output oven owner oxygen package page paint pair
paper paragraph parameter parent park parking part partner party passenger password past path
patient pattern payment peace pen people pepper percentage performance period permission person
perspective phase phone photo phrase piano picture piece pilot pin place plan plane planet plant
plate platform play player playlist poem poet point policy pollution pool population port portfolio
position post potential pound power practice prediction preference premium preparation presence
president press pressure price principal priority prison prize probability problem procedure process
processor product production profession professor profile profit program progress project promotion
property proposal protein protocol provider province purchase purpose quality quantity quarter query
question queue race radio radius rain range rank rate rating ratio reaction reader reason receipt
recipe recipient recommendation record recovery rectangle reference refund region registration
regression relation relationship release reminder rent repair report repository representation
request requirement research reservation resistance resolution resource response rest restaurant
result return revenue review revolution reward rice right ring risk river road role roof room root
rose rotation round route router row rule runtime safety salad salary sale salt sample sand
satellite scale scene schedule schema school science scientist scope score screen script sea search
season seat second secret section sector security segment selection sender senior sense sensor
sentence sequence series server service session set setting shape share sheet shelf ship shirt shoe
shop shopping side sign signal significance silver simulation sister site situation size skill skin
sky sleep smoke snow society software soil solution son song sort sound source south space speaker
species speech speed spending sport spot spring square staff stage standard star start state
statement station statistic status step stock stomach stone stop storage store storm story strategy
stream street strength stress string structure student studio study style subject subscription
success sugar suggestion summary summer sun supplier supply support surface surgery survey symbol
symptom system table tag talk target task tax taxi tea teacher team technique technology television
temperature template tenant term test text theater theme theory therapy thing thread ticket time
timeline timestamp timezone tip tire title token tomorrow tone tool tooth top topic total touch tour
tournament town toy track trade tradition traffic train training transaction transfer translation
transport travel treatment tree trend trial triangle trip truck trust truth tutorial type uncle
union unit universe university update upgrade upload user username utility vacation validation value
variable variance variation variety vector vegetable vehicle velocity vendor version vessel video
view village violin virus vision visit visitor voice voltage volume vote wage waist wait walk wall
war warning waste watch water wave way wealth weapon weather web website wedding week weekend weight
west wheel wheat wife width wildlife wind window wine wing winner winter wire woman wood word work
worker world wrist writer year yard yesterday yield zip zone zoo
"""
VERBS = """
accept access achieve act activate add adjust aim allow analyze announce answer appear apply approve
arrange arrive ask assign assume attach avoid base become begin believe belong book borrow break
bring build buy calculate call cancel capture carry catch change charge check choose clean clear
click close collect combine come compare complete compute confirm connect consider contain continue
convert cook copy correct cost count cover create cross cut deal decide decrease define delete
deliver depend deploy describe design detect determine develop disable discover discuss display
divide download draw drive drop earn eat edit enable end enjoy ensure enter estimate evaluate
examine exclude execute exist expand expect explain explore export express extend extract face fail
fall feel fetch fill filter find finish fit fix fly follow forget format forward gather generate get
give go grow guess handle happen have hear help hide hold identify ignore import improve include
increase indicate inform insert install interpret introduce invest invite involve join keep know
label last launch lead learn leave lend let like limit list listen live load locate lock log look
lose maintain make manage map mark match mean measure meet merge mix monitor move multiply need
notify obtain occur offer open optimize order organize pack paint park pass pay perform pick place
plan play post predict prefer prepare present prevent print process produce promise propose protect
prove provide publish pull purchase push put raise reach read receive recommend record reduce refer
refresh register reject relate release remain remember remind remove rename rent repair repeat
replace reply report represent request require reserve reset resolve respond restart restore
retrieve return review rise roll run save say scale scan schedule score search see seem select sell
send separate serve set share shift show sign simplify simulate sit skip sleep solve sort speak
specify spend split stand start stay stop store stream study submit subtract succeed suggest
summarize supply support suppose switch take talk teach tell test thank think throw touch track
train transfer translate travel treat trigger try turn type understand undo unlock update upgrade
upload use validate verify view visit wait walk want warn wash watch wear win wish withdraw work
worry write
"""
ADJECTIVES = """
able academic active actual additional advanced annual available bad basic beautiful best better big
black blue boolean brief bright broad brown careful central certain cheap classical clean clear
close cold comfortable common complete complex compound constant correct current daily dangerous
decimal deep default detailed different difficult digital direct domestic double dry early easy
economic electric empty entire environmental equal estimated exact expensive external extra fair
false famous fast final financial first flat following foreign formal free frequent fresh full
general global good great green happy hard healthy heavy high historical hot huge important included
indoor initial inner internal international joint key large last late latest legal light likely
linear little local long loud low main major manual many marine married mathematical maximum mean
medical mental metric military minimum minor missing mobile modern monthly moving multiple musical
narrow national natural necessary negative new next nice normal numerical numeric obvious official
old online only open optional orange organic original other outdoor outer overall own parallel
particular past perfect periodic personal physical pink plain polite political poor popular positive
possible potential powerful preferred previous primary private professional proper public pure quick
quiet random rare raw ready real recent red regional regular related relative relevant reliable
required residential rich right round royal safe same scientific secondary secret senior separate
serious sharp short significant silver similar simple single slow small smart social soft solid
special specific square stable standard static statistical straight strict strong sudden suitable
sunny sure sweet tall technical temporary thick thin third tight tiny total tough traditional true
typical unique universal unknown upper upcoming urban useful usual valid valuable various vast
visual warm weak weekly wet white whole wide wild wonderful wooden wrong yearly yellow young
"""
SMALL_WORDS = """
a about above across after again against all almost also although always among an and another any
are around as at away back based be because been before being below between both but by can could
did do does during each either else enough etc even ever every few for from get had has have he her
here him his how i if in instead into is it its itself just least less like may maybe me might more
most much must my near neither never no none nor not nothing now of off often on once one only or
other our out over per perhaps please quite rather same she should since so some someone something
soon such than that the their them then there these they this those though through thus to together
too toward two three four five six seven eight nine ten hundred thousand under until up upon us
using usually very via was we well were what when where whether which while who whole whom whose why
will with within without would yes yet you your
"""
NAMES = """
Africa Alice America Amsterdam Anna April Asia August Australia Bangkok Beijing Berlin Bob Boston
Brazil Cairo California Canada Carol Charles Chicago China Christmas Dallas David December Denver
Dubai Dublin Einstein Emma England Europe February Florida France Friday Germany Google Greece
Hawaii Houston India Ireland Istanbul Italy James January Japan Jane John July June Kenya Kyoto
Lagos Laura Lima Linux Lisbon London Los Angeles Madrid Maria March Mark Mars Mary May Mexico Miami
Michael Milan Monday Moscow Mumbai Netflix New York Newton November October Oslo Oxford Paris Paul
Peter Prague Python Quebec Robert Rome Russia San Francisco Sarah Saturday Seattle September Seoul
Shanghai Singapore Smith Spain Spanish Stockholm Sunday Sydney Texas Thursday Tokyo Tom Toronto
Tuesday Turkey Uber Vienna Washington Wednesday William Zurich English French German Italian
Japanese Chinese American European USD EUR GBP JPY UTC HTTP URL API JSON SQL HTML CSV PDF ID GPS DNA
CPU RAM ISO
"""
SCHEMA_WORDS = """
additionalProperties allOf anyOf arguments array boolean const content default description enum
error exclusiveMinimum false finish_reason format function integer items maxItems maxLength maximum
message metadata minItems minLength minimum name null number object oneOf parameters pattern
properties required result role status string strict tool_calls tool_choice tools true type
uniqueItems uuid
"""
CHINESE_SUBJECTS = words(
    "我 你 他 她 我们 你们 他们 老师 学生 朋友 孩子 医生 用户 公司 系统 模型 工具 同事"
)
CHINESE_TIMES = words("今天 明天 昨天 现在 早上 晚上 下午 周末 上个月 去年 每天 刚才 以后 最近")
CHINESE_VERBS = words(
    "喜欢 想要 需要 可以 已经 正在 应该 知道 觉得 希望 开始 完成 查询 调用 使用 计算 返回 检查 "
    "提供 学习 工作 购买 发送 选择 打开 关闭 告诉 帮助 处理 设置 更新 删除"
)
CHINESE_OBJECTS = words(
    "天气 北京 上海 东京 巴黎 时间 问题 答案 电影 音乐 书 飞机票 火车 酒店 餐厅 咖啡 苹果 汽车 "
    "函数 参数 结果 文件 数据 消息 邮件 价格 城市 温度 地址 名字 电话 日期 图片 语言 世界 中国 "
    "水 茶 米饭 房子 学校 医院 银行 钱 路 山 海 猫 狗 花 树"
)
CHINESE_LINKS = words(
    "和 的 在 是 了 不 吗 呢 吧 但是 因为 所以 如果 然后 非常 一个 这个 那个 什么"
)
SYMBOLS = words(
    "😀 😂 🎉 🚀 👍 ❤️ 🌧️ ☀️ 🔧 🐍 ✅ ❌ 👩‍💻 🇫🇷 é è ü ö ä ñ ç ß å ø – — … “ ” ‘ ’ « » • · "
    "€ £ ¥ ° ± × ÷ ≤ ≥ ≠ → ← ↑ ↓ π ∑ √ ∞ α β γ λ μ Ω"
)
OTHER_SCRIPTS = (
    "Погода в городе сегодня хорошая. Привет, мир! Здравствуйте, как дела?",
    "Где находится ближайший ресторан? Спасибо большое.",
    "今日の天気はどうですか。東京へ行きたいです。ありがとうございます。",
    "오늘 날씨가 어때요? 서울에 가고 싶어요. 감사합니다.",
    "كيف حالك اليوم؟ شكرا جزيلا لك.",
    "מה שלומך היום? תודה רבה.",
    "आज मौसम कैसा है? धन्यवाद।",
    "¿Qué tiempo hace hoy en la ciudad? Muchas gracias por tu ayuda.",
    "Quel temps fait-il aujourd'hui dans la ville ? Merci beaucoup pour votre aide.",
    "Wie wird das Wetter heute in der Stadt? Vielen Dank für die Hilfe, das ist schön.",
)
VOWELS = frozenset("aeiou")


def inflections(verb: str) -> list[str]:
    """Regular forms only: a wrong past tense costs a tokenizer nothing."""
    stem = verb[:-1] if verb.endswith("e") else verb
    past = verb[:-1] + "ied" if verb[-1] == "y" and verb[-2] not in VOWELS else stem + "ed"
    return [verb, plural(verb), stem + "ing", past]


def plural(word: str) -> str:
    if word[-1] == "y" and word[-2:-1] not in VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


class Corpus:
    """A stream of lines; the same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nouns = NOUNS.split()
        self.verbs = VERBS.split()
        self.adjectives = ADJECTIVES.split()
        self.small = SMALL_WORDS.split()
        self.names = NAMES.split()
        self.every_word = sorted(
            {
                *self.nouns,
                *map(plural, self.nouns),
                *(form for verb in self.verbs for form in inflections(verb)),
                *self.adjectives,
                *self.small,
            }
        )

    def lines(self, count: int) -> Iterator[str]:
        yield from self.dictionary()
        makers: tuple[tuple[Callable[[], str], int], ...] = (
            (self.sentence, 30),
            (self.tool, 22),
            (self.call, 14),
            (self.record, 10),
            (self.code, 8),
            (self.chinese, 8),
            (self.mixed, 5),
            (lambda: self.rng.choice(OTHER_SCRIPTS), 3),
        )
        chosen = self.rng.choices(
            [maker for maker, _ in makers], [weight for _, weight in makers], k=count
        )
        for maker in chosen:
            yield maker()

    def dictionary(self) -> Iterator[str]:
        """Every word at least three times after a space, and bare, capitalised and in names."""
        for word in [*self.every_word, *self.names]:
            yield f"the {word} or {word} and {word}"
            yield f"{word.capitalize()}\n{word}({word})"
        for word in self.nouns:
            yield f"get_{word}_{self.pick(self.nouns)}: {word.capitalize()}"
        for word in SCHEMA_WORDS.split():
            yield " ".join([f'{{"{word}": "{word}"}}'] * 20)

    def pick(self, words: list[str]) -> str:
        return self.rng.choice(words)

    def phrase(self) -> str:
        start = self.rng.choice(("the", "a", "each", "your", "this", "any", "all"))
        adjective = f" {self.pick(self.adjectives)}" if self.rng.random() < 0.5 else ""
        noun = self.pick(self.nouns)
        return f"{start}{adjective} {plural(noun) if self.rng.random() < 0.3 else noun}"

    def clause(self) -> str:
        verb = self.rng.choice(inflections(self.pick(self.verbs)))
        link = self.pick(self.small)
        return f"{self.phrase()} {verb} {self.phrase()} {link} {self.phrase()}"

    def sentence(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: f"{self.clause().capitalize()}.",
            lambda: f"What is {self.phrase()} of {self.pick(self.names)}?",
            lambda: f"Can you {self.pick(self.verbs)} {self.phrase()} for me, please?",
            lambda: (
                f"I'd like to {self.pick(self.verbs)} {self.phrase()} in {self.pick(self.names)}"
                f" on {self.date()}, and then {self.pick(self.verbs)} {self.phrase()}."
            ),
            lambda: f"If {self.clause()}, then {self.clause()}; it doesn't {self.clause()}.",
            lambda: f"{self.pick(self.names)}'s {self.pick(self.nouns)} isn't {self.number()}%!",
            lambda: f"Okay, so {self.clause()}. Let me {self.pick(self.verbs)} {self.phrase()}.\n",
            lambda: (
                f"# {self.pick(self.nouns).capitalize()}\n\n- **{self.phrase()}**: {self.clause()}"
            ),
        )
        return self.rng.choice(templates)()

    def describe(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: f"The {self.pick(self.nouns)} of {self.phrase()}.",
            lambda: (
                f"{self.pick(self.verbs).capitalize()} {self.phrase()} based on {self.phrase()}."
            ),
            lambda: (
                f"The {self.pick(self.nouns)} to {self.pick(self.verbs)}, e.g. '{self.value()}'."
            ),
            lambda: f"Optional {self.pick(self.nouns)} ({self.pick(self.adjectives)} or not).",
            lambda: (
                f"{self.phrase().capitalize()} in {self.pick(self.nouns)}."
                f" Default is {self.number()}."
            ),
        )
        return self.rng.choice(templates)()

    def identifier(self) -> str:
        kind = self.rng.random()
        if kind < 0.25:
            return self.pick(self.nouns)
        if kind < 0.5:
            return f"{self.pick(self.nouns)}_{self.pick(self.nouns)}"
        if kind < 0.75:
            return f"{self.pick(self.verbs)}_{self.pick(self.adjectives)}_{self.pick(self.nouns)}"
        if kind < 0.9:
            return f"{self.pick(self.verbs)}{self.pick(self.nouns).capitalize()}"
        return f"{self.pick(self.nouns)}.{self.pick(self.verbs)}"

    def number(self) -> str:
        whole = self.rng.randrange(10 ** self.rng.randrange(1, 6))
        return f"{whole}.{self.rng.randrange(100)}" if self.rng.random() < 0.3 else str(whole)

    def date(self) -> str:
        return (
            f"20{self.rng.randrange(10, 30)}-{self.rng.randrange(1, 13):02}"
            f"-{self.rng.randrange(1, 29):02}"
        )

    def value(self) -> str:
        templates: tuple[Callable[[], str], ...] = (
            lambda: self.pick(self.names),
            lambda: self.phrase(),
            lambda: self.pick(self.nouns),
            self.date,
            lambda: f"{self.pick(self.names)}, {self.pick(self.names)}",
            lambda: f"https://www.{self.pick(self.nouns)}.com/{self.identifier()}.html",
            lambda: f"{self.pick(self.names).lower()}@example.org",
        )
        return self.rng.choice(templates)()

    def json_value(self, depth: int) -> object:
        kind = self.rng.random()
        if depth and kind < 0.15:
            return {self.identifier(): self.json_value(depth - 1) for _ in range(2)}
        if depth and kind < 0.35:
            return [self.json_value(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind < 0.7:
            return self.value()
        if kind < 0.85:
            return float(self.number()) if self.rng.random() < 0.3 else self.rng.randrange(5000)
        return self.rng.choice((True, False, None, "", {}, []))

    def dump(self, value: object) -> str:
        """Compact, spaced or indented, so that each style's closers become tokens."""
        style = self.rng.random()
        if style < 0.55:
            return json.dumps(value, ensure_ascii=False)
        if style < 0.8:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return json.dumps(value, ensure_ascii=False, indent=self.rng.choice((2, 4)))

    def record(self) -> str:
        return self.dump({self.identifier(): self.json_value(2) for _ in range(4)})

    def property(self) -> dict[str, object]:
        schema: dict[str, object] = {
            "type": self.rng.choice(("string", "integer", "number", "boolean", "array", "string")),
            "description": self.describe(),
        }
        if schema["type"] == "array":
            schema["items"] = {"type": self.rng.choice(("string", "number", "integer"))}
        elif schema["type"] == "string" and self.rng.random() < 0.3:
            schema["enum"] = [self.pick(self.nouns) for _ in range(3)]
        if self.rng.random() < 0.2:
            schema["default"] = self.json_value(0)
        return schema

    def tool(self) -> str:
        properties = {self.identifier(): self.property() for _ in range(self.rng.randrange(1, 5))}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": list(properties)[: self.rng.randrange(1, 4)],
        }
        function = {
            "name": self.identifier(),
            "description": self.describe(),
            "parameters": parameters,
        }
        return self.dump({"type": "function", "function": function})

    def call(self) -> str:
        arguments = {self.identifier(): self.json_value(1) for _ in range(self.rng.randrange(1, 4))}
        return "\n" + self.dump({"name": self.identifier(), "arguments": arguments}) + "\n"

    def code(self) -> str:
        name, one, two = (
            self.identifier().replace(".", "_"),
            self.pick(self.nouns),
            self.pick(self.nouns),
        )
        templates = (
            f"def {name}({one}: str, {two}: int = {self.number()}) -> None:\n"
            f'    """{self.describe()}"""\n'
            f"    for {one} in range(len({two})):\n"
            f"        if {one} == {two} and not {one}.{name}:\n"
            f"            return {two}[{one}] + {self.number()}\n",
            f"const {one} = await {name}({two}, {{ {one}: true }});\n"
            f"if ({one} !== null) {{\n  console.log(`${{{two}}}`);\n}}\n",
            f"SELECT {one}, COUNT({two}) FROM {name} WHERE {one} >= {self.number()} LIMIT 10;",
            f'<div class="{one}"><p>{self.phrase()}</p></div>\n<!-- {two} -->',
            f"$ {one} --{two}={self.number()} | grep -v '{name}' > /tmp/{two}.txt && echo $?",
            f"f(x) = {self.number()}x^2 + {self.number()}x - {self.number()}, x = (3, -1)",
        )
        return self.rng.choice(templates)

    def chinese(self) -> str:
        parts = [
            self.pick(words)
            for words in (
                CHINESE_TIMES,
                CHINESE_SUBJECTS,
                CHINESE_VERBS,
                CHINESE_LINKS,
                CHINESE_OBJECTS,
                CHINESE_LINKS,
                CHINESE_OBJECTS,
            )
        ]
        return f"{''.join(parts)}，{self.pick(CHINESE_SUBJECTS)}{self.pick(CHINESE_VERBS)}。"

    def mixed(self) -> str:
        some = " ".join(self.rng.choices(SYMBOLS, k=4))
        return f"{self.phrase()} {some} {self.number()}°C — {self.pick(CHINESE_OBJECTS)}"
