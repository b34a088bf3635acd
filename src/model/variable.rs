//! Variables: small maps of text under a path, as Nomad keeps them since 1.4.
//!
//! Which paths a new variable may have, and how much it may hold (`nomad-neighbour-apis` 1.5, 1.6).
//! The texts are Nomad's.

use serde::{Deserialize, Serialize};

use super::id::{Namespace, VariablePath};

/// A variable's full name, and its place in every list: by namespace, then by path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The path in it.
    pub path: VariablePath,
}

impl VariableKey {
    /// How many bytes the keys and values of one variable may have together.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Both parts.
    pub fn new(namespace: Namespace, path: VariablePath) -> Self {
        Self { namespace, path }
    }
}

impl std::fmt::Display for VariableKey {
    /// `path` in the default namespace, `path (namespace NS)` elsewhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.as_str() == Namespace::DEFAULT {
            write!(f, "{}", self.path)
        } else {
            write!(f, "{} (namespace {})", self.path, self.namespace)
        }
    }
}

/// Why no variable can be written at a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It is empty.
    #[error("variable requires path")]
    Empty,
    /// It has other characters than letters, digits, `-`, `_`, `~` and `/`, or more than 128.
    #[error("invalid path {0:?}")]
    Characters(String),
    /// The directory `nomad` itself.
    #[error(
        "\"nomad\" is a reserved top-level directory path, but you may write variables to \"nomad/jobs\", \"nomad/job-templates\", \"nomad/sentinel\", or below"
    )]
    Reserved,
    /// Not exactly one level below `nomad/job-templates`.
    #[error(
        "\"nomad/job-templates\" is a reserved directory path, but you may write variables at the level below it, for example, \"nomad/job-templates/template-name\""
    )]
    JobTemplates,
    /// Elsewhere below `nomad`.
    #[error(
        "only paths at \"nomad/jobs\" or \"nomad/job-templates\" and below are valid paths under the top-level \"nomad\" directory"
    )]
    BelowNomad,
}

impl VariablePath {
    /// What forbids a variable at this path, if anything.
    pub fn problem(&self) -> Option<PathProblem> {
        let path = self.as_str();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_~/".contains(c);
        if path.is_empty() {
            return Some(PathProblem::Empty);
        }
        if path.len() > 128 || !path.chars().all(allowed) {
            return Some(PathProblem::Characters(path.to_owned()));
        }
        let segments: Vec<_> = path.split('/').collect();
        match segments.as_slice() {
            ["nomad"] => Some(PathProblem::Reserved),
            ["nomad", "job-templates", _] | ["nomad", "jobs" | "sentinel", ..] => None,
            ["nomad", "job-templates", ..] => Some(PathProblem::JobTemplates),
            ["nomad", ..] => Some(PathProblem::BelowNomad),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nomad-neighbour-apis` 1.5, and a real Nomad 2.0.5 (`variables.jsonl`).
    #[test]
    fn paths_are_nomads() {
        use PathProblem::{BelowNomad, Characters, Empty, JobTemplates, Reserved};
        let (long, longest) = ("a".repeat(129), "a".repeat(128));
        for (path, expected) in [
            ("app/one", None),
            ("app/x/", None),
            ("Nomad", None),
            ("nomads/x", None),
            ("a-b_c~d/e", None),
            (&longest, None),
            ("nomad/jobs", None),
            ("nomad/jobs/a/b/c", None),
            ("nomad/sentinel", None),
            ("nomad/job-templates/x", None),
            ("", Some(Empty)),
            ("a.b", Some(Characters("a.b".into()))),
            ("a b", Some(Characters("a b".into()))),
            ("ü", Some(Characters("ü".into()))),
            (&long, Some(Characters(long.clone()))),
            ("nomad", Some(Reserved)),
            ("nomad/job-templates", Some(JobTemplates)),
            ("nomad/job-templates/x/y", Some(JobTemplates)),
            ("nomad/x", Some(BelowNomad)),
            ("nomad/", Some(BelowNomad)),
        ] {
            assert_eq!(VariablePath::new(path).problem(), expected, "{path}");
        }
    }
}
