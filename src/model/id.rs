//! Identifiers, one type each, so that no code passes a node ID as a volume ID.
//!
//! Any text can become an identifier, because a server may already store it. `problem()` checks an ID
//! before a new object is created with it (W49: Nomad accepts IDs that its API cannot address).

use serde::{Deserialize, Serialize};

use super::display::{is_invisible, shell_quoted};
use super::text::{COMMON, Text};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Text);

        impl $name {
            /// Wraps a text without a check.
            pub fn new(text: impl Into<String>) -> Self {
                Self(Text::from(text.into()))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text, to share the memory of equal ones.
            pub fn text_mut(&mut self) -> &mut Text {
                &mut self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    )*};
}

names! {
    /// A Nomad namespace.
    Namespace;
    /// A volume's ID, unique in its namespace; jobs refer to it.
    VolumeId;
    /// The provider's ID of a volume: CSI's `volume_id`.
    ExternalId;
    /// The provider's ID of a snapshot: CSI's `snapshot_id`.
    SnapshotId;
    /// A variable's path, unique in its namespace; may contain slashes.
    VariablePath;
    /// A plugin's ID, unique in a region.
    PluginId;
    /// The ID of a Nomad client node, a UUID.
    NodeId;
    /// The provider's ID of a node: CSI's `node_id`.
    ExternalNodeId;
    /// The ID of a Nomad allocation, a UUID.
    AllocId;
    /// A job's ID, unique in its namespace.
    JobId;
    /// The ID of an evaluation of a job, a UUID.
    EvaluationId;
    /// The name by which an allocation knows a volume: the label of the job's `volume` block.
    VolumeAlias;
    /// One run of a process that calls plugins, a UUID: every start has another one.
    HostSession;
}

impl Namespace {
    /// The namespace of requests that name none.
    pub const DEFAULT: &'static str = COMMON;
    /// Selects all namespaces where a request allows that.
    pub const ALL: &'static str = "*";
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

/// The namespace and ID of a volume, its primary key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamespacedId {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID in the namespace.
    pub id: VolumeId,
}

impl NamespacedId {
    /// Combines namespace and ID.
    pub fn new(namespace: Namespace, id: VolumeId) -> Self {
        Self { namespace, id }
    }

    /// Returns whether a text of a command line names it: `ID` or `NAMESPACE/ID`. An ID contains no slash.
    pub fn is_named(&self, text: &str) -> bool {
        match text.split_once('/') {
            Some((namespace, id)) => self.namespace.as_str() == namespace && self.id.as_str() == id,
            None => self.id.as_str() == text,
        }
    }

    /// The value of an option that names it: `NAMESPACE/ID`.
    pub fn option(&self) -> String {
        format!("{}/{}", self.namespace, self.id)
    }

    /// The words that name the volume in a command that a message proposes: `db --namespace prod`.
    pub fn command_words(&self) -> String {
        let (id, namespace) = (shell_quoted(&self.id), shell_quoted(&self.namespace));
        format!("{id} --namespace {namespace}")
    }

    /// The name as messages quote it: `` `db` ``, or `` `db` (namespace `prod`) `` elsewhere.
    pub fn quoted(&self) -> String {
        if self.namespace.as_str() == Namespace::DEFAULT {
            format!("`{}`", self.id)
        } else {
            format!("`{}` (namespace `{}`)", self.id, self.namespace)
        }
    }
}

impl std::fmt::Display for NamespacedId {
    /// Writes `id` in the default namespace, `id (namespace NS)` in others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.as_str() == Namespace::DEFAULT {
            write!(f, "{}", self.id)
        } else {
            write!(f, "{} (namespace {})", self.id, self.namespace)
        }
    }
}

/// The namespace and ID of a job, its primary key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID in the namespace.
    pub id: JobId,
}

impl JobKey {
    /// Combines namespace and ID.
    pub fn new(namespace: Namespace, id: JobId) -> Self {
        Self { namespace, id }
    }

    /// The name as messages quote it: `` `web` ``, or `` `web` (namespace `prod`) `` elsewhere.
    pub fn quoted(&self) -> String {
        if self.namespace.as_str() == Namespace::DEFAULT {
            format!("`{}`", self.id)
        } else {
            format!("`{}` (namespace `{}`)", self.id, self.namespace)
        }
    }
}

/// Why a text cannot be a new volume's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdProblem {
    /// The ID is empty.
    #[error("it is empty")]
    Empty,
    /// The ID contains a character that splits or ends a URL path even if it is percent-encoded.
    #[error("Nomad's HTTP API cannot address an ID with {0:?}")]
    Unaddressable(char),
    /// The ID contains a character that terminals do not show, so it may look like another ID.
    #[error("it contains the invisible character U+{code:04X}", code = u32::from(*.0))]
    Invisible(char),
    /// The ID is `.` or `..`, which HTTP clients remove from a path.
    #[error("HTTP clients remove `.` and `..` from a path")]
    DotSegment,
    /// The ID is longer than 128 bytes, the limit of CSI for strings (section "Size Limits").
    #[error("it has {0} bytes, and CSI allows 128")]
    TooLong(usize),
}

/// Why paths of the HTTP API cannot name a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobPathProblem {
    /// A segment between slashes is empty, `.` or `..`.
    #[error("HTTP clients remove an empty segment, `.` and `..` from a path")]
    Segment,
    /// The last segment is an endpoint of jobs.
    #[error("the HTTP API reads `/{0}` at its end as a request about another job")]
    Endpoint(&'static str),
}

/// The last words of paths below `/v1/job/`, of Nomad and of the agent.
const JOB_ENDPOINTS: [&str; 18] = [
    "action",
    "actions",
    "allocations",
    "deployment",
    "deployments",
    "dispatch",
    "evaluate",
    "evaluations",
    "force",
    "placement",
    "plan",
    "revert",
    "scale",
    "services",
    "stable",
    "submission",
    "summary",
    "versions",
];

impl JobId {
    /// Returns why no path names the job, if so: it could be registered, and neither be read nor stopped. An ID may
    /// have slashes, as those of dispatched and periodic jobs do.
    pub fn path_problem(&self) -> Option<JobPathProblem> {
        let mut segments = self.as_str().split('/');
        if segments.any(|segment| matches!(segment, "" | "." | "..")) {
            return Some(JobPathProblem::Segment);
        }
        let (_, last) = self.as_str().rsplit_once('/')?;
        let endpoint = JOB_ENDPOINTS.into_iter().find(|word| *word == last);
        endpoint.map(JobPathProblem::Endpoint)
    }
}

impl VolumeId {
    /// Returns why a new volume cannot have this ID, if so. Nomad splits the path on `/` after
    /// percent-decoding, and CSI limits the length.
    pub fn problem(&self) -> Option<IdProblem> {
        let unaddressable = |c: &char| *c == '/' || c.is_control();
        match self.as_str() {
            "" => Some(IdProblem::Empty),
            "." | ".." => Some(IdProblem::DotSegment),
            text if text.len() > 128 => Some(IdProblem::TooLong(text.len())),
            text => text.chars().find(unaddressable).map(IdProblem::Unaddressable),
        }
    }

    /// Returns why no specification may have this ID, if so. A server may have volumes of other IDs.
    pub fn problem_in_specification(&self) -> Option<IdProblem> {
        let invisible = || self.as_str().chars().find(|c| is_invisible(*c));
        self.problem().or_else(|| invisible().map(IdProblem::Invisible))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_an_id_that_paths_can_name() {
        for id in ["web", "plan", "a/b", "web/dispatch-1-a", "plan/web", "a.b", "日本"] {
            assert_eq!(JobId::new(id).path_problem(), None, "{id}");
        }
        for id in ["", ".", "..", "a/", "/a", "a//b", "a/../b", "a/."] {
            let found = JobId::new(id).path_problem();
            assert_eq!(found, Some(JobPathProblem::Segment), "{id}");
        }
        for word in JOB_ENDPOINTS {
            for id in [format!("a/{word}"), format!("a/b/{word}")] {
                let found = JobId::new(&id).path_problem();
                assert_eq!(found, Some(JobPathProblem::Endpoint(word)), "{id}");
            }
        }
    }

    #[test]
    fn only_addressable_ids_are_valid_for_new_volumes() {
        let long = "x".repeat(129);
        for (id, expected) in [
            ("db", None),
            ("db[0]", None),
            ("with space", None),
            ("日本", None),
            ("", Some(IdProblem::Empty)),
            ("a/b", Some(IdProblem::Unaddressable('/'))),
            ("a\nb", Some(IdProblem::Unaddressable('\n'))),
            ("..", Some(IdProblem::DotSegment)),
            (long.as_str(), Some(IdProblem::TooLong(129))),
        ] {
            assert_eq!(VolumeId::new(id).problem(), expected, "{id:?}");
            assert_eq!(VolumeId::new(id).problem_in_specification(), expected, "{id:?}");
        }
    }

    #[test]
    fn a_specification_cannot_have_an_id_with_invisible_characters() {
        for c in ['\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}'] {
            let id = VolumeId::new(format!("a{c}"));
            assert_eq!(id.problem(), None);
            assert_eq!(id.problem_in_specification(), Some(IdProblem::Invisible(c)));
        }
        let problem = IdProblem::Invisible('\u{202e}');
        assert_eq!(problem.to_string(), "it contains the invisible character U+202E");
    }
}
