//! Twice the text takes twice the time of processors and twice the memory, up to 200,000 lines: as
//! a draft, as markdown, as RFCXML, as plain XDR, as a document without markers, where each
//! definition has a defect, where a union has many arms, and where conditions use a long macro.
//!
//! One test, since other threads of the process would count.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;

use allocation_counter::measure;
use xdrgen_build::{Config, Module};

/// Lines of the longer text.
const LINES: usize = 200_000;
/// The greatest ratios of two texts, one of which is twice as long: of times, to which caches that
/// are too small and page faults add, and of memory. A quadratic step would make it four.
const MAX_TIME_RATIO: f64 = 2.6;
const MAX_MEMORY_RATIO: f64 = 2.1;
/// How often two texts are checked in turns: the least time of each counts. No further round is
/// needed once the ratio is low enough, since noise only adds time.
const ROUNDS: usize = 8;

/// Definitions of each kind, which refer to those before. They have 23 lines.
fn definitions(number: usize) -> String {
    let before = number.saturating_sub(1);
    format!(
        "/* Definitions {number}: a comment\n * of two lines. */\n\
         const LIMIT_{number} = {number};\n\
         enum kind_{number} {{\n    KIND_{number}_A = 0, /* one */\n    KIND_{number}_B = 1\n}};\n\
         struct point_{number} {{\n    int x;\n    unsigned hyper y;\n    kind_{before} kind;\n\
         \x20   opaque name<LIMIT_{number}>;\n    point_{before} *next;\n}};\n\
         union choice_{number} switch (kind_{number} kind) {{\ncase KIND_{number}_A:\n\
         \x20   point_{before} point;\ncase KIND_{number}_B:\n    void;\n}};\n\
         typedef choice_{number} choices_{number}<>;\n\
         struct row_{number} {{ choices_{before} all; string text<>; }};\n\n",
    )
}

fn plain(lines: usize) -> String {
    let each = definitions(0).lines().count();
    (0..lines / each).map(definitions).collect()
}

/// The lines with markers, on pages.
fn draft(lines: usize) -> String {
    let mut text = String::from("1.  Definitions\n\n");
    for (number, line) in plain(lines).lines().enumerate() {
        if number > 0 && number % 50 == 0 {
            let page = number / 50;
            let _ = write!(
                text,
                "\nAuthor          Expires 2030          [Page {page}]\n\u{c}\n\
                 Internet-Draft          Definitions          2029\n\n"
            );
        }
        let _ = writeln!(text, "   /// {line}");
    }
    text
}

/// The definitions between paragraphs.
fn prose(lines: usize) -> String {
    let plain = plain(lines);
    let mut text = String::new();
    for definition in plain.split("\n\n") {
        text.push_str("\n   A paragraph about the definitions that follow.\n\n");
        for line in definition.lines() {
            let _ = writeln!(text, "   {line}");
        }
    }
    text
}

/// Uses of a macro with a long value.
fn conditions(lines: usize) -> String {
    let uses = "#if X\n#endif\n".repeat(lines / 2);
    format!("#define X {}\n{uses}", "a".repeat(lines * 4))
}

/// The definitions in blocks between `starts`, in turns, and `ends`.
fn blocks(lines: usize, starts: [&str; 2], ends: [&str; 2]) -> String {
    let plain = plain(lines);
    let mut text = String::new();
    for (at, definition) in plain.split("\n\n").enumerate() {
        text.push_str(starts[at % 2]);
        for line in definition.lines() {
            let _ = writeln!(text, "/// {line}");
        }
        text.push_str(ends[at % 2]);
    }
    text
}

fn markdown(lines: usize) -> String {
    blocks(
        lines,
        ["A paragraph.\n\n~~~ xdr\n", "```\n"],
        ["~~~\n", "```\n"],
    )
}

fn rfcxml(lines: usize) -> String {
    let starts = [
        "<t>A paragraph.</t>\n<sourcecode type=\"xdr\"><![CDATA[",
        "<artwork><![CDATA[",
    ];
    blocks(lines, starts, ["]]></sourcecode>\n", "]]></artwork>\n"])
}

/// A type that does not exist, a name that exists, a semicolon that is missing.
fn defects(lines: usize) -> String {
    let one = |number| {
        format!(
            "struct a_{number} {{\n    missing_{number} x;\n}};\n\
             struct a_{number} {{\n    int y;\n}};\n\
             typedef int b_{number}\nconst C_{number} = 1;\n"
        )
    };
    (0..lines / 8).map(one).collect()
}

/// Unions with an arm for each member of an enum, and with arms that are no member.
fn union(lines: usize) -> String {
    let mut text = String::from("enum kind {\n");
    let count = lines / 3;
    for number in 0..count {
        let _ = writeln!(text, "    KIND_{number} = {number},");
    }
    text += "    KIND_LAST = -1\n};\nunion all switch (kind which) {\n";
    for number in 0..count {
        let _ = writeln!(text, "case KIND_{number}: int arm_{number};");
    }
    text += "default: void;\n};\nunion none switch (kind which) {\n";
    for number in 0..count {
        let _ = writeln!(text, "case {}: void;", count + number);
    }
    text + "};\n"
}

/// A text, the file that it would be, and whether it has no markers.
type Form = (&'static str, fn(usize) -> String, &'static str, bool);

/// Checks a text, and returns how many diagnostics there are.
fn check(name: &str, text: &str, is_prose: bool) -> usize {
    let module = Module::new("a");
    let module = match is_prose {
        true => module.prose(name, &[]),
        false => module.document(name),
    };
    let config = Config::new().module(module).edited(name, text);
    config.check().diagnostics().len()
}

/// Returns the processor time of this process in seconds.
fn processor_time() -> f64 {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS
}

/// A text in two lengths.
struct Pair {
    name: &'static str,
    is_prose: bool,
    texts: [String; 2],
}

impl Pair {
    fn new((_, text, name, is_prose): Form) -> Self {
        let texts = [LINES / 2, LINES].map(text);
        Self {
            name,
            is_prose,
            texts,
        }
    }

    /// Checks each once, and returns what was measured.
    fn measured(&self) -> [Measured; 2] {
        self.texts.each_ref().map(|text| {
            let start = processor_time();
            let mut diagnostics = 0;
            let memory = measure(|| diagnostics = check(self.name, text, self.is_prose));
            Measured {
                time: processor_time() - start,
                memory: memory.bytes_max as f64,
                diagnostics,
            }
        })
    }
}

/// What checking a text takes: seconds of processors, and the most bytes at once.
struct Measured {
    time: f64,
    memory: f64,
    diagnostics: usize,
}

/// Checks two texts in turns until the ratio of times is low enough.
fn measure_both(pair: &Pair) -> [Measured; 2] {
    let mut least = pair.measured();
    for _ in 1..ROUNDS {
        if least[1].time <= MAX_TIME_RATIO * least[0].time {
            break;
        }
        for (least, again) in least.iter_mut().zip(pair.measured()) {
            least.time = least.time.min(again.time);
        }
    }
    least
}

#[test]
fn time_and_memory_are_linear() {
    let forms: [Form; 8] = [
        ("draft", draft, "draft-a-00.txt", false),
        ("plain XDR", plain, "a.x", false),
        ("prose", prose, "a.txt", true),
        ("defects", defects, "a.x", false),
        ("unions", union, "a.x", false),
        ("conditions", conditions, "a.x", false),
        ("markdown", markdown, "draft-a-00.md", false),
        ("RFCXML", rfcxml, "draft-a-00.xml", false),
    ];
    let mut wrong = Vec::new();
    for form in forms {
        let pair = Pair::new(form);
        let [one, two] = measure_both(&pair);
        let ratios = [two.time / one.time, two.memory / one.memory];
        let line = format!(
            "{}: {:.2} s and {:.2} s of processors, {:.0} MB and {:.0} MB: {ratios:.2?}; \
             {} and {} diagnostics",
            form.0,
            one.time,
            two.time,
            one.memory / 1e6,
            two.memory / 1e6,
            one.diagnostics,
            two.diagnostics,
        );
        println!("{line}");
        // Otherwise the text was not read.
        let is_read = one.memory > 10e6 && one.time > 0.0;
        let is_linear = ratios[0] <= MAX_TIME_RATIO && ratios[1] <= MAX_MEMORY_RATIO;
        if !is_read || !is_linear {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
