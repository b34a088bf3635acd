//! Policy files: what commands must not do, in TOML.
//!
//! A policy that cannot be read, or that this program does not understand completely, is an error: what it forbids would be
//! allowed. So is a file without any key, such as the result of a failed download. As the config file, a policy is used only
//! if no other user could have written or replaced it. A wrong path may name a file with secrets, so values are hidden where
//! they are not those of a policy.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::config::{hidden_values, read_limited};
use super::specs::reason;
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span, closest_match,
};
use nomad_csi_model::one_line;
use nomad_csi_model::private::NotPrivate;
use nomad_csi_plan::{DenyRule, POLICY_KEYS, Policy, Risk};

/// Reads a policy. `name` is shown in messages. Blocks while reading.
///
/// # Errors
/// Returns every problem of the file, with places in `sources`.
pub fn read_policy(
    path: &Path,
    name: &str,
    sources: &mut SourceMap,
) -> Result<Policy, Diagnostics> {
    let text = read_limited(path).map_err(|error| unreadable(name, &error))?;
    let source = sources.add(name, text.as_str());
    let mut reader = PolicyReader { name, source, hidden: vec![], problems: vec![] };
    let policy = match DeTable::parse(&text) {
        Ok(file) => reader.file(file.get_ref()),
        Err(error) => {
            reader.error("it is not valid TOML", error.span().unwrap_or(0..0), error.message());
            reader.hidden = hidden_values(&text, source);
            None
        }
    };
    let PolicyReader { hidden, problems, .. } = reader;
    hidden.into_iter().for_each(|span| sources.hide(span));
    match policy.filter(|_| problems.is_empty()) {
        Some(policy) => Ok(policy),
        None => Err(problems.into_iter().collect()),
    }
}

fn unreadable(name: &str, error: &io::Error) -> Diagnostics {
    if let Some(refused) = NotPrivate::find(error) {
        return refused.diagnostic("use the policy").into();
    }
    let message = format!("cannot read policy `{}`: {}", one_line(name), reason(error));
    Diagnostic::error(Code::PolicyUnreadable, message)
        .help("correct the path; without its policy, the command does nothing")
        .into()
}

type Table<'t> = DeTable<'t>;
type Value<'t> = Spanned<DeValue<'t>>;

struct PolicyReader<'r> {
    name: &'r str,
    source: SourceId,
    hidden: Vec<Span>,
    problems: Vec<Diagnostic>,
}

impl PolicyReader<'_> {
    fn error(&mut self, why: &str, range: Range<usize>, label: &str) {
        let message = format!("cannot use policy `{}`: {why}", one_line(self.name));
        let span = SourceMap::span(self.source, range);
        self.problems.push(Diagnostic::error(Code::PolicyInvalid, message).label(span, label));
    }

    fn hide(&mut self, range: Range<usize>) {
        self.hidden.push(SourceMap::span(self.source, range));
    }

    fn file(&mut self, file: &Table<'_>) -> Option<Policy> {
        let mut policy =
            Policy { file: self.name.to_owned(), deny: BTreeSet::new(), max_risk: None };
        if file.is_empty() {
            let message = format!("cannot use policy `{}`: it has no key", one_line(self.name));
            let keys: Vec<String> = POLICY_KEYS.iter().map(|(key, _)| format!("`{key}`")).collect();
            let help = format!("write at least one of: {}", keys.join(", "));
            self.problems.push(Diagnostic::error(Code::PolicyInvalid, message).help(help));
            return None;
        }
        for (key, value) in file {
            match key.get_ref().as_ref() {
                "deny" => policy.deny = self.rules(key, value),
                "max_risk" => policy.max_risk = self.risk(key, value),
                _ => self.unknown_key(key, value),
            }
        }
        Some(policy)
    }

    fn rules(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>) -> BTreeSet<DenyRule> {
        let DeValue::Array(words) = value.get_ref() else {
            self.wrong_type(key, value, "a list of texts");
            return BTreeSet::new();
        };
        let all = DenyRule::ALL.map(|rule| (rule.as_str(), rule));
        words.iter().filter_map(|word| self.word(key, word, &all)).collect()
    }

    fn risk(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>) -> Option<Risk> {
        self.word(key, value, &Risk::ALL.map(|risk| (risk.as_str(), risk)))
    }

    /// Returns what a text names.
    fn word<T: Copy>(
        &mut self,
        key: &Spanned<DeString<'_>>,
        value: &Value<'_>,
        all: &[(&str, T)],
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, "a text");
            return None;
        };
        if let Some((_, one)) = all.iter().find(|(word, _)| *word == text) {
            return Some(*one);
        }
        let words = all.iter().map(|(word, _)| *word);
        let label = match closest_match(text, words.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of: {}", words.collect::<Vec<_>>().join(", ")),
        };
        let why = format!("`{}` has an unknown value", key.get_ref());
        self.hide(value.span());
        self.error(&why, value.span(), &label);
        None
    }

    fn wrong_type(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>, expected: &str) {
        self.hide(value.span());
        let why = format!("`{}` has the wrong type: expected {expected}", key.get_ref());
        self.error(&why, key.span(), "");
    }

    fn unknown_key(&mut self, key: &Spanned<DeString<'_>>, value: &Value<'_>) {
        let is_header = value.span().start <= key.span().start;
        if !is_header {
            self.hide(value.span());
        }
        let word = key.get_ref().as_ref();
        let label = closest_match(word, POLICY_KEYS.iter().map(|(known, _)| *known)).map_or_else(
            || "no policy has this key".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.error(&format!("it has an unknown key `{}`", one_line(word)), key.span(), &label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a policy with this text, and returns the messages of its problems with what each marks.
    fn read(text: &str) -> Result<Policy, Vec<(String, String)>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ci.policy.toml");
        std::fs::write(&path, text).unwrap();
        let mut sources = SourceMap::default();
        read_policy(&path, "ci.policy.toml", &mut sources).map_err(|problems| {
            let marked = |problem: &Diagnostic| {
                let span = problem.labels.first().map(|label| label.span);
                let place = span.map(|span| sources.location(span));
                let place = place.map(|at| format!("{}:{}", at.line, at.column));
                (problem.message.clone(), place.unwrap_or_default())
            };
            problems.iter().map(marked).collect()
        })
    }

    #[test]
    fn a_policy_has_every_rule_of_deny_and_every_risk() {
        for rule in DenyRule::ALL {
            let policy = read(&format!("deny = [\"{}\"]\n", rule.as_str())).unwrap();
            assert_eq!((policy.deny, policy.max_risk), ([rule].into(), None));
        }
        for risk in Risk::ALL {
            let policy = read(&format!("max_risk = \"{risk}\"\n")).unwrap();
            assert_eq!((policy.deny, policy.max_risk), ([].into(), Some(risk)));
        }
    }

    /// What is not understood would be allowed.
    #[test]
    fn a_policy_that_is_not_understood_completely_is_refused_at_its_place() {
        for (text, why, place) in [
            ("", "it has no key", ""),
            ("# deny\n", "it has no key", ""),
            ("deny = [\n", "it is not valid TOML", "1:9"),
            ("deny = []\ndeny = [\"expand\"]\n", "it is not valid TOML", "2:1"),
            ("deny = []\ndenny = [\"expand\"]\n", "it has an unknown key `denny`", "2:1"),
            ("deny = []\n[max_risk]\n", "`max_risk` has the wrong type: expected a text", "2:2"),
            ("deny = \"expand\"\n", "`deny` has the wrong type: expected a list of texts", "1:1"),
            ("deny = [\"expand\", 1]\n", "`deny` has the wrong type: expected a text", "1:1"),
            ("deny = [\"expand\",\n \"delete\"]\n", "`deny` has an unknown value", "2:2"),
            ("max_risk = \"none\"\n", "`max_risk` has an unknown value", "1:12"),
            ("max_risk = \"Reversible\"\n", "`max_risk` has an unknown value", "1:12"),
        ] {
            let expected = format!("cannot use policy `ci.policy.toml`: {why}");
            assert_eq!(read(text), Err(vec![(expected, place.to_owned())]), "{text}");
        }
    }

    #[test]
    fn every_key_of_the_documentation_is_read() {
        for (key, _) in POLICY_KEYS {
            let problems = read(&format!("{key} = 1\n")).unwrap_err();
            assert!(problems[0].0.contains("has the wrong type"), "{key}: {problems:?}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("none.toml"), directory.path().to_owned()] {
            let problems = read_policy(&path, "p", &mut SourceMap::default()).unwrap_err();
            let codes: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
            assert_eq!(codes, [Code::PolicyUnreadable], "{}", path.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_policy_that_others_could_have_written_is_refused() {
        use std::os::unix::fs::{PermissionsExt as _, chown};
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("ci");
        let file = inner.join("ci.policy.toml");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, "deny = []\n").unwrap();
        let set = |path: &Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).unwrap();
        };
        let is_refused = || match read_policy(&file, "p", &mut SourceMap::default()) {
            Ok(_) => false,
            Err(problems) => problems.iter().all(|problem| problem.code == Code::FileNotPrivate),
        };
        for (file_mode, directory_mode, expected) in [
            (0o644, 0o755, false),
            (0o600, 0o700, false),
            (0o664, 0o755, true),
            (0o646, 0o755, true),
            (0o644, 0o777, true),
        ] {
            set(&inner, directory_mode);
            set(&file, file_mode);
            assert_eq!(is_refused(), expected, "{file_mode:o} {directory_mode:o}");
        }
        set(&inner, 0o700);
        set(&file, 0o600);
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(61_234), None).unwrap();
            assert!(is_refused(), "a file of another user");
        }
    }
}
