//! Variables: small text maps under a path, which Nomad supports since 1.4.
//!
//! The rules for paths and sizes are Nomad's, and so are the error texts.

use serde::{Deserialize, Serialize};

use super::id::{Namespace, VariablePath};

/// The namespace and path of a variable. Lists are sorted by both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The path in the namespace.
    pub path: VariablePath,
}

impl VariableKey {
    /// The maximum size of the keys and values of one variable in bytes.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Combines namespace and path.
    pub fn new(namespace: Namespace, path: VariablePath) -> Self {
        Self { namespace, path }
    }
}

impl std::fmt::Display for VariableKey {
    /// Writes `path` in the default namespace, `path (namespace NS)` in others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.as_str() == Namespace::DEFAULT {
            write!(f, "{}", self.path)
        } else {
            write!(f, "{} (namespace {})", self.path, self.namespace)
        }
    }
}

/// Why no variable can have a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// The path is empty.
    #[error("variable requires path")]
    Empty,
    /// The path has characters other than letters, digits, `-`, `_`, `~` and `/`, or more than 128.
    #[error("invalid path {0:?}")]
    Characters(String),
    /// The path is `nomad`.
    #[error(
        "\"nomad\" is a reserved top-level directory path, but you may write variables to \"nomad/jobs\", \"nomad/job-templates\", \"nomad/sentinel\", or below"
    )]
    Reserved,
    /// The path is not exactly one level below `nomad/job-templates`.
    #[error(
        "\"nomad/job-templates\" is a reserved directory path, but you may write variables at the level below it, for example, \"nomad/job-templates/template-name\""
    )]
    JobTemplates,
    /// The path is elsewhere below `nomad`.
    #[error(
        "only paths at \"nomad/jobs\" or \"nomad/job-templates\" and below are valid paths under the top-level \"nomad\" directory"
    )]
    BelowNomad,
}

impl VariablePath {
    /// Returns why a variable cannot have this path, if so.
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

    /// The cases agree with Nomad 2.0.5 (`variables.jsonl`).
    #[test]
    fn path_rules_are_those_of_nomad() {
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
