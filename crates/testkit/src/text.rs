//! Sample texts for measuring token estimates: at least 20 KB each, in several scripts and forms.

use mif::{DetailLevel, Value};

use super::corpus;
use super::random::SplitMix64;

/// The least size of a sample, in bytes.
const SIZE: usize = 20 * 1024;
const SEED: u64 = 42;

/// Returns English prose.
pub fn english() -> String {
    assemble(ENGLISH, " ", "\n\n")
}

/// Returns Chinese prose.
pub fn chinese() -> String {
    assemble(CHINESE, "", "\n\n")
}

/// Returns Japanese prose.
pub fn japanese() -> String {
    assemble(JAPANESE, "", "\n\n")
}

/// Returns Arabic prose.
pub fn arabic() -> String {
    assemble(ARABIC, " ", "\n\n")
}

/// Returns source code in three languages.
pub fn source_code() -> String {
    code(SIZE, SEED)
}

/// Returns memories as lines of compact JSON.
pub fn json_lines() -> String {
    let lines = corpus::lines(&corpus::memories(48, SEED), DetailLevel::Full);
    lines.join("\n") + "\n"
}

/// Returns the same memories as one indented JSON array.
pub fn json_pretty() -> String {
    let memories = corpus::memories(48, SEED);
    let records: Value =
        memories.iter().map(|memory| Value::Object(memory.at(DetailLevel::Full))).collect();
    format!("{records:#}\n")
}

/// Joins sentences into paragraphs. A sentence is not repeated within the last few, so
/// that the text does not compress to nothing.
fn assemble(sentences: &[&str], space: &str, paragraph: &str) -> String {
    let mut random = SplitMix64::new(SEED);
    let mut recent = Vec::new();
    let mut text = String::new();
    while text.len() < SIZE {
        for i in 0..4 + random.below(4) {
            let choice = loop {
                let choice = random.below(sentences.len());
                if !recent.contains(&choice) {
                    break choice;
                }
            };
            recent.push(choice);
            if recent.len() > sentences.len() / 2 {
                recent.remove(0);
            }
            text.push_str(if i == 0 { "" } else { space });
            text.push_str(sentences[choice]);
        }
        text.push_str(paragraph);
    }
    text
}

const ENGLISH: &[&str] = &[
    "The harbour was quiet when the first boats came back.",
    "Nobody had expected the bridge to be finished before winter.",
    "She wrote the numbers down twice, because the first page was wet.",
    "A good map shows what to leave out as well as what to put in.",
    "After three weeks of rain the path to the mill had become a stream.",
    "The committee agreed on the date, the place, and very little else.",
    "Old machines are easier to repair when their makers expected repair.",
    "He kept the letters in a tin box under the stairs.",
    "Every answer in the book began with the same question.",
    "The train stopped between two stations and nobody said why.",
    "It takes about four hours to walk around the lake, less if you run.",
    "Our neighbour grows tomatoes, beans, and an astonishing number of pumpkins.",
    "The second experiment gave the same result as the first, only slower.",
    "They painted the door green so that the postman would stop asking.",
    "If the wind turns north before noon, the fishermen stay at home.",
    "The library lends tools, seeds, and on Thursdays also advice.",
    "Measuring a coastline depends on the length of your ruler.",
    "There were seventeen chairs in the room and no two of them matched.",
    "A short sentence can carry a long thought.",
    "The clock in the square has been four minutes fast since 1962.",
    "What surprised the engineers was not the noise but the silence after it.",
    "Bread should rest before it is cut, whatever the children say.",
    "The report was long, careful, and almost entirely unread.",
    "Between the two villages lies a hill that both of them claim.",
    "She learned the language from songs and from arguing with bakers.",
    "The museum keeps its most valuable painting in the cellar.",
    "Most of the delay was caused by a door that opened the wrong way.",
    "In spring the river carries branches, bottles, and once a piano.",
    "The teacher asked for three examples and got thirty.",
    "Not every problem that looks like a queue is a queue.",
    "He apologised to the cat, which accepted without enthusiasm.",
    "The price of salt had doubled, yet the soup tasted the same.",
];

const CHINESE: &[&str] = &[
    "清晨的港口很安静，第一批渔船刚刚回来。",
    "谁也没有想到这座桥会在冬天之前完工。",
    "她把数字抄了两遍，因为第一页被雨淋湿了。",
    "好的地图不仅告诉你画什么，也告诉你省略什么。",
    "连续下了三个星期的雨，通往磨坊的小路变成了小溪。",
    "委员会商定了日期和地点，别的几乎什么也没有定下来。",
    "旧机器如果当初考虑了维修，现在就容易修理。",
    "他把信放在楼梯下面的铁盒子里。",
    "书里的每个答案都从同一个问题开始。",
    "火车停在两个车站之间，没有人解释原因。",
    "绕湖走一圈大约需要四个小时，跑步会快一些。",
    "我们的邻居种西红柿、豆子，还有数量惊人的南瓜。",
    "第二次实验的结果和第一次一样，只是慢了一点。",
    "他们把门漆成绿色，这样邮递员就不用再问了。",
    "如果中午以前刮起北风，渔民就留在家里。",
    "图书馆出借工具和种子，星期四还提供建议。",
    "测量海岸线的长度取决于尺子有多长。",
    "房间里有十七把椅子，没有两把是一样的。",
    "短短一句话也可以表达很深的想法。",
    "广场上的钟从一九六二年起就快了四分钟。",
    "让工程师惊讶的不是噪音，而是之后的寂静。",
    "面包出炉以后应该先放一放，不管孩子们怎么说。",
    "报告写得很长、很仔细，却几乎没有人读。",
    "两个村子中间有一座山，双方都说是自己的。",
    "她通过唱歌和跟面包师争论学会了这门语言。",
    "博物馆把最珍贵的画放在地下室里。",
    "大部分延误是因为一扇门开错了方向。",
    "春天的河水带来树枝、瓶子，有一次还带来一架钢琴。",
];

const JAPANESE: &[&str] = &[
    "最初の船が戻ってきたとき、港は静かだった。",
    "冬までに橋が完成するとは、だれも思っていなかった。",
    "最初のページが濡れてしまったので、彼女は数字を二度書いた。",
    "よい地図は、何を描くかだけでなく何を省くかも教えてくれる。",
    "三週間も雨が続いて、水車小屋への道は小川になっていた。",
    "委員会は日付と場所を決めたが、ほかのことはほとんど決まらなかった。",
    "修理を考えて作られた古い機械は、今でも直しやすい。",
    "彼は階段の下のブリキの箱に手紙をしまっていた。",
    "その本の答えは、どれも同じ質問から始まっている。",
    "列車は駅と駅の間で止まり、だれも理由を言わなかった。",
    "湖を一周するのに歩いて四時間ほどかかるが、走ればもっと早い。",
    "隣の人はトマトと豆と、驚くほどたくさんのカボチャを育てている。",
    "二回目の実験の結果は一回目と同じで、ただ少し遅かった。",
    "郵便屋さんに聞かれないように、ドアを緑色に塗った。",
    "昼前に北風に変わったら、漁師たちは家にいる。",
    "図書館では道具や種を貸してくれて、木曜日には相談にも乗ってくれる。",
    "海岸線の長さは、物差しの長さによって変わる。",
    "部屋には椅子が十七脚あったが、同じものは一つもなかった。",
    "短い文でも、長い考えを伝えることができる。",
    "広場の時計は一九六二年からずっと四分進んでいる。",
    "技師たちを驚かせたのは音ではなく、そのあとの静けさだった。",
    "子どもたちが何と言おうと、パンは切る前に休ませたほうがいい。",
    "報告書は長くて丁寧だったが、ほとんど読まれなかった。",
    "二つの村の間には、どちらも自分のものだと言う丘がある。",
    "彼女は歌と、パン屋さんとの口げんかで言葉を覚えた。",
    "美術館はいちばん大切な絵を地下室に置いている。",
    "遅れの原因の多くは、逆向きに開くドアだった。",
    "春の川は枝や瓶を運び、一度はピアノまで流れてきた。",
];

const ARABIC: &[&str] = &[
    "كان الميناء هادئًا عندما عادت القوارب الأولى.",
    "لم يتوقع أحد أن يكتمل الجسر قبل الشتاء.",
    "كتبت الأرقام مرتين لأن الصفحة الأولى كانت مبللة.",
    "الخريطة الجيدة تعلّمك ما تحذفه كما تعلّمك ما ترسمه.",
    "بعد ثلاثة أسابيع من المطر صار الطريق إلى الطاحونة جدولًا.",
    "اتفقت اللجنة على التاريخ والمكان ولم تتفق على شيء آخر تقريبًا.",
    "الآلات القديمة أسهل إصلاحًا إذا توقّع صانعوها أن تُصلَح.",
    "كان يحفظ الرسائل في صندوق من الصفيح تحت الدرج.",
    "كل جواب في الكتاب يبدأ بالسؤال نفسه.",
    "توقف القطار بين محطتين ولم يقل أحد لماذا.",
    "يستغرق المشي حول البحيرة أربع ساعات تقريبًا.",
    "يزرع جارنا الطماطم والفاصوليا وعددًا مدهشًا من اليقطين.",
    "أعطت التجربة الثانية نتيجة الأولى نفسها ولكن ببطء.",
    "طلوا الباب بالأخضر كي لا يسأل ساعي البريد مرة أخرى.",
    "إذا تحولت الريح شمالًا قبل الظهر بقي الصيادون في بيوتهم.",
    "تعير المكتبة الأدوات والبذور، وتقدم النصيحة يوم الخميس.",
    "قياس الساحل يعتمد على طول المسطرة.",
    "كان في الغرفة سبعة عشر كرسيًا لا يشبه أحدها الآخر.",
    "قد تحمل الجملة القصيرة فكرة طويلة.",
    "ساعة الساحة متقدمة أربع دقائق منذ عام ١٩٦٢.",
    "لم يُدهش المهندسين الضجيج بل الصمت الذي تلاه.",
    "يجب أن يرتاح الخبز قبل تقطيعه مهما قال الأطفال.",
    "كان التقرير طويلًا ودقيقًا ولم يقرأه أحد تقريبًا.",
    "بين القريتين تلّ تدّعيه كلتاهما.",
    "تعلمت اللغة من الأغاني ومن الجدال مع الخبازين.",
    "يحتفظ المتحف بأثمن لوحاته في القبو.",
];

/// `{f}` is a function, `{a}` and `{b}` are variables, `{n}` is a number.
const TEMPLATES: &[&str] = &[
    "/// Returns the {a} that belongs to a {b}.\npub fn {f}({a}: &[u32], {b}: usize) -> Option<u32> {\n    let mut total = {n};\n    for value in {a}.iter().take({b}) {\n        total += value.checked_mul(2)?;\n    }\n    Some(total)\n}\n\n",
    "impl {F} {\n    fn {f}(&mut self, {a}: &str) -> Result<(), Error> {\n        if {a}.len() > {n} {\n            return Err(Error::TooLong { limit: {n}, found: {a}.len() });\n        }\n        self.{b}.push({a}.to_owned());\n        Ok(())\n    }\n}\n\n",
    "#[test]\nfn {f}_keeps_{a}() {\n    let {b} = {F}::new({n});\n    assert_eq!({b}.{a}(), {n}, \"after {f}\");\n}\n\n",
    "def {f}({a}, {b}=None):\n    \"\"\"Combine {a} with {b}.\"\"\"\n    if {b} is None:\n        {b} = {{}}\n    for key, value in sorted({a}.items()):\n        {b}[key] = value * {n} if isinstance(value, int) else value\n    return {b}\n\n\n",
    "class {F}:\n    LIMIT = {n}\n\n    def __init__(self, {a}):\n        self.{a} = list({a})\n\n    def {f}(self):\n        return [x for x in self.{a} if x % 2 == 0][: self.LIMIT]\n\n\n",
    "export async function {f}({a}, { {b} = {n} } = {}) {\n  const response = await fetch(`/v1/{a}?limit=${{b}}`);\n  if (!response.ok) throw new Error(`{f}: ${response.status}`);\n  return (await response.json()).{a} ?? [];\n}\n\n",
    "const {f} = ({a}) => {a}.filter(({b}) => {b}.size > {n}).map(({b}) => ({ ...{b}, seen: true }));\n\n",
    "match {a}.{f}() {\n    Some({b}) if {b} > 0x{n} => state = State::{F}({b}),\n    Some(_) => {}\n    None => return Err(io::ErrorKind::UnexpectedEof.into()),\n}\n\n",
];
const VERBS: &[&str] =
    &["load", "merge", "parse", "count", "split", "write", "check", "fetch", "sort", "trim"];
const NOUNS: &[&str] = &[
    "rows", "index", "header", "page", "token", "cursor", "frame", "entry", "scope", "batch",
    "limit", "buffer",
];

fn code(size: usize, seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut text = String::new();
    while text.len() < size {
        let (verb, noun) = (*random.pick(VERBS), *random.pick(NOUNS));
        let (a, b) = loop {
            let (a, b) = (*random.pick(NOUNS), *random.pick(NOUNS));
            if a != b {
                break (a, b);
            }
        };
        let template = *random.pick(TEMPLATES);
        text.push_str(
            &template
                .replace("{F}", &format!("{}{}", capitalised(verb), capitalised(noun)))
                .replace("{f}", &format!("{verb}_{noun}"))
                .replace("{a}", a)
                .replace("{b}", b)
                .replace("{n}", &(2 + random.below(4000)).to_string()),
        );
    }
    text
}

fn capitalised(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_large_enough_and_always_the_same() {
        for sample in [english, source_code, chinese, japanese, arabic, json_lines, json_pretty] {
            let text = sample();
            assert!(text.len() >= SIZE, "{}: {}", text.len(), &text[..40]);
            assert_eq!(text, sample());
        }
    }

    #[test]
    fn json_samples_are_json() {
        for line in json_lines().lines() {
            assert!(mif::Memory::from_json(line).is_ok());
        }
        assert!(serde_json::from_str::<Vec<mif::Memory>>(&json_pretty()).is_ok());
    }
}
