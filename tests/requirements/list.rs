//! The list of requirements, and the checks of its ids, levels, decisions and repetitions.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::ROOT;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    requirement: Vec<Requirement>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Requirement {
    pub(crate) id: String,
    pub(crate) section: String,
    pub(crate) line: usize,
    pub(crate) level: String,
    pub(crate) lead: Option<String>,
    pub(crate) sentence: String,
    #[serde(default)]
    pub(crate) inferred: bool,
    pub(crate) same_as: Option<String>,
    pub(crate) decision: Option<String>,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    Open,
    Covered,
    NotApplicable,
}

impl Requirement {
    pub(crate) fn draft(&self) -> &str {
        self.id.split('-').next().unwrap()
    }

    /// Returns the id of the rule that it repeats, or its own id.
    fn rule(&self) -> &str {
        self.same_as.as_deref().unwrap_or(&self.id)
    }

    /// Returns the id of the rule whose citations it shares: the rule of the same draft that it
    /// repeats. Other code implements a rule of another draft.
    pub(crate) fn cited_as(&self) -> &str {
        let same = |other: &&str| other.split('-').next() == Some(self.draft());
        self.same_as.as_deref().filter(same).unwrap_or(&self.id)
    }
}

pub(crate) fn requirements() -> Vec<Requirement> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("spec/requirements.toml")).unwrap();
    toml::from_str::<File>(&text).unwrap().requirement
}

/// Returns the numbers of a section, which compare in document order.
pub(crate) fn numbers(section: &str) -> Option<Vec<u32>> {
    section
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

/// Returns `a` to `z`, then `aa` to `az`, and so on.
pub(crate) fn letters(index: usize) -> String {
    let last = char::from(b'a' + u8::try_from(index % 26).unwrap());
    if index < 26 {
        last.to_string()
    } else {
        letters(index / 26 - 1) + &last.to_string()
    }
}

/// Returns the distinct key words as printed, without those in quotation marks and without OPTIONAL
/// as an adjective.
pub(crate) fn key_words(text: &str) -> Vec<&'static str> {
    // A word that is a prefix of another one comes after it.
    const WORDS: [&str; 9] = [
        "MUST NOT",
        "MUST",
        "SHALL NOT",
        "SHALL",
        "SHOULD NOT",
        "SHOULD",
        "REQUIRED",
        "REQUIRES",
        "MAY",
    ];
    let unquoted: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    let mut found = Vec::new();
    for (at, _) in unquoted.char_indices() {
        let rest = &unquoted[at..];
        let is_word = |word: &str| {
            let ends = rest
                .strip_prefix(word)
                .is_some_and(|after| !after.starts_with(char::is_alphanumeric));
            ends && !unquoted[..at].ends_with(char::is_alphanumeric)
        };
        let optional = ["is OPTIONAL", "are OPTIONAL"]
            .into_iter()
            .any(is_word)
            .then_some("OPTIONAL");
        let word = WORDS.into_iter().find(|word| is_word(word)).or(optional);
        found.extend(word.filter(|word| !found.contains(word)));
    }
    found
}

/// Returns the number of key words in a text.
pub(crate) fn key_word_count(text: &str) -> usize {
    let is_key = |word: &&str| {
        let word = word.trim_matches(|one: char| !one.is_ascii_alphabetic());
        ["MUST", "SHALL", "SHOULD", "REQUIRED", "MAY", "OPTIONAL"].contains(&word)
    };
    text.split_whitespace().filter(is_key).count()
}

pub(crate) fn level(requirement: &Requirement) -> String {
    let mut words = key_words(&requirement.sentence);
    if let (true, Some(lead)) = (
        words.is_empty(),
        requirement
            .lead
            .as_deref()
            .filter(|lead| lead.ends_with(':')),
    ) {
        words = key_words(lead);
    }
    if words.is_empty() {
        "implied".to_owned()
    } else {
        words.join(", ")
    }
}

/// Returns the defects of the list: ids that do not match the positions of their rules, and invalid
/// values.
pub(crate) fn malformed(requirements: &[Requirement], decisions: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let by_id: BTreeMap<_, _> = requirements
        .iter()
        .map(|one| (one.id.as_str(), one))
        .collect();
    if by_id.len() != requirements.len() {
        faults.push("an id stands twice".to_owned());
    }
    let mut counts = BTreeMap::new();
    for one in requirements {
        let place = (one.draft().to_owned(), one.section.clone());
        let count: &mut usize = counts.entry(place).or_default();
        if one.id != format!("{}-{}-{}", one.draft(), one.section, letters(*count)) {
            faults.push(format!(
                "{}: not the id for its draft, section and order",
                one.id
            ));
        }
        *count += 1;
        if level(one) != one.level {
            faults.push(format!(
                "{}: level is {:?}, not {:?}",
                one.id,
                level(one),
                one.level
            ));
        }
        if (one.status == Status::NotApplicable) != one.reason.is_some() {
            faults.push(format!(
                "{}: a reason goes with not-applicable, and with nothing else",
                one.id
            ));
        }
        for name in one.decision.iter().flat_map(|names| names.split(", ")) {
            if !decisions.contains(&format!("**{name}. "))
                && !decisions.contains(&format!("**{name} "))
            {
                faults.push(format!("{}: README.md has no decision {name}", one.id));
            }
        }
        faults.extend(misdirected(one, &by_id));
    }
    faults.extend(
        requirements
            .windows(2)
            .filter(|pair| pair[0].draft() == pair[1].draft())
            .filter_map(disordered),
    );
    faults
}

fn misdirected(one: &Requirement, by_id: &BTreeMap<&str, &Requirement>) -> Option<String> {
    let fault = match by_id.get(one.rule()) {
        None => "the other rule does not exist",
        Some(other) if other.id == one.id => {
            return one
                .inferred
                .then(|| format!("{}: inferred from nothing", one.id));
        }
        Some(other) if other.same_as.is_some() => "the other rule repeats a third",
        Some(other) if one.inferred && other.sentence != one.sentence => {
            "inferred, but with other words"
        }
        Some(other) if one.cited_as() == other.id && other.status != one.status => {
            "the other rule has another status"
        }
        Some(_) => return None,
    };
    Some(format!("{}: same-as {}: {fault}", one.id, one.rule()))
}

fn disordered(pair: &[Requirement]) -> Option<String> {
    let place = |one: &Requirement| (numbers(&one.section), one.line);
    let (before, after) = (place(&pair[0]), place(&pair[1]));
    let ordered = before.0.is_some() && before.0 <= after.0 && before.1 <= after.1;
    (!ordered).then(|| format!("{} does not stand before {}", pair[0].id, pair[1].id))
}

#[test]
fn requirements_are_well_formed() {
    let decisions = std::fs::read_to_string(Path::new(ROOT).join("spec/README.md")).unwrap();
    let faults = malformed(&requirements(), &decisions);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
