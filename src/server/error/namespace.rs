//! Refused requests about namespaces, and about objects in a namespace that does not exist.

use http::StatusCode;

use crate::candidates::left_help;
use nomad_csi_claims::state::NamespaceContents;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, JobId, JobKey, Namespace, NamespacedId, NodeId, PluginId};

/// How many objects of one kind an error names.
const NAMED: usize = 3;

/// An object that a request puts into a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceUser {
    /// A volume.
    Volume(NamespacedId),
    /// A job.
    Job(JobKey),
}

impl NamespaceUser {
    /// Returns the namespace.
    pub fn namespace(&self) -> &Namespace {
        match self {
            Self::Volume(key) => &key.namespace,
            Self::Job(key) => &key.namespace,
        }
    }
}

/// An instance of a plugin whose allocation has ended, and whose process is not known to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInstance {
    /// The job.
    pub job: JobId,
    /// The allocation.
    pub alloc: AllocId,
    /// Its node.
    pub node: NodeId,
    /// The plugin.
    pub plugin: PluginId,
}

/// Why a request about a namespace fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceError {
    /// A read of a namespace that does not exist.
    NotFound(Namespace),
    /// A deletion of a namespace that does not exist.
    NothingToDelete(Namespace),
    /// A deletion of `default`.
    IsDefault,
    /// A deletion of a namespace that is not empty.
    InUse {
        /// The namespace.
        namespace: Namespace,
        /// Its contents.
        contents: Box<NamespaceContents>,
        /// The plugin instances of its stopped jobs that are not known to be gone.
        left: Vec<LeftInstance>,
    },
    /// The name or the description is not valid.
    Invalid(String),
    /// The request sets a field that this agent does not support.
    Unsupported(&'static str),
    /// The namespace changed during every attempt.
    Busy(Namespace),
    /// A write into a namespace that does not exist.
    Missing(NamespaceUser),
}

impl NamespaceError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        const OTHER: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        match self {
            Self::NotFound(_) => (Code::NamespaceUnknown, StatusCode::NOT_FOUND),
            Self::NothingToDelete(_) => (Code::NamespaceUnknown, OTHER),
            Self::IsDefault => (Code::ApiBadRequest, OTHER),
            Self::InUse { .. } => (Code::NamespaceInUse, OTHER),
            Self::Invalid(_) | Self::Unsupported(_) => {
                (Code::ApiBadRequest, StatusCode::BAD_REQUEST)
            }
            Self::Busy(_) => (Code::ServerBusy, OTHER),
            Self::Missing(_) => (Code::VolumeUnknownNamespace, OTHER),
        }
    }

    /// Returns Nomad's exact text where Nomad has one, else the message.
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotFound(_) => "Namespace not found".to_owned(),
            Self::NothingToDelete(_) => "namespace not found".to_owned(),
            Self::IsDefault => "can not delete default namespace".to_owned(),
            Self::InUse { namespace, contents, .. } if !contents.running_jobs.is_empty() => {
                format!("namespace \"{namespace}\" has non-terminal jobs in regions: [global]")
            }
            // Terraform waits for the end of tasks if it reads these words.
            Self::InUse { namespace, contents, .. } if contents.has_only_stopped_jobs() => format!(
                "namespace \"{namespace}\" has non-terminal allocations in regions: [global]"
            ),
            Self::Missing(NamespaceUser::Volume(key)) => {
                format!("volume {} is in nonexistent namespace {}", key.id, key.namespace)
            }
            Self::Missing(NamespaceUser::Job(key)) => {
                format!("job \"{}\" is in nonexistent namespace \"{}\"", key.id, key.namespace)
            }
            Self::InUse { .. } | Self::Invalid(_) | Self::Unsupported(_) | Self::Busy(_) => {
                self.message()
            }
        }
    }

    /// Returns the message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::NotFound(name) | Self::NothingToDelete(name) => {
                format!("namespace `{name}` does not exist")
            }
            Self::IsDefault => "namespace `default` cannot be deleted".to_owned(),
            Self::InUse { namespace, contents, .. } => format!(
                "namespace `{namespace}` cannot be deleted: it contains {}",
                contents_text(contents)
            ),
            Self::Invalid(why) => why.clone(),
            Self::Unsupported(field) => {
                format!("this agent does not support `{field}` of a namespace")
            }
            Self::Busy(name) => {
                format!("namespace `{name}` was not deleted: it changed during every attempt")
            }
            Self::Missing(user) => missing_text(user),
        }
    }
}

impl NamespaceError {
    /// Returns what a deletion waits for, a sentence for each.
    pub(super) fn notes(&self) -> Vec<String> {
        let left = self.left().iter().take(NAMED);
        let texts = left.map(|LeftInstance { job, alloc, node, plugin }| {
            format!(
                "allocation `{alloc}` of job `{job}` has ended, and node `{node}` has not reported that the process of its plugin \
                 `{plugin}` is gone"
            )
        });
        texts.collect()
    }

    /// Returns what helps, if that is not what helps for every error of its code.
    pub(super) fn help(&self) -> Option<String> {
        self.left().first().map(|first| left_help(&first.node))
    }

    fn left(&self) -> &[LeftInstance] {
        match self {
            // Running jobs end first.
            Self::InUse { contents, left, .. } if contents.has_only_stopped_jobs() => left,
            Self::NotFound(_)
            | Self::NothingToDelete(_)
            | Self::IsDefault
            | Self::InUse { .. }
            | Self::Invalid(_)
            | Self::Unsupported(_)
            | Self::Busy(_)
            | Self::Missing(_) => &[],
        }
    }
}

fn missing_text(user: &NamespaceUser) -> String {
    let (kind, name) = match user {
        NamespaceUser::Volume(key) => ("volume", key.id.to_string()),
        NamespaceUser::Job(key) => ("job", key.id.to_string()),
    };
    let namespace = user.namespace();
    format!("{kind} `{name}` cannot be written: namespace `{namespace}` does not exist")
}

/// Returns such as "2 volumes (`a`, `b`) and 1 stopped job (`web`)".
fn contents_text(contents: &NamespaceContents) -> String {
    fn names<T>(of: &[T], name: fn(&T) -> String) -> Vec<String> {
        of.iter().map(name).collect()
    }
    let job = |key: &JobKey| key.id.to_string();
    let kinds = [
        ("volume", names(&contents.volumes, |key| key.id.to_string())),
        ("running job", names(&contents.running_jobs, job)),
        ("stopped job", names(&contents.stopped_jobs, job)),
        ("variable", names(&contents.variables, |key| key.path.to_string())),
    ];
    let used = kinds.iter().filter(|(_, names)| !names.is_empty());
    let texts: Vec<_> = used.map(|(kind, names)| kind_text(kind, names)).collect();
    match texts.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        all => all.join(", "),
    }
}

fn kind_text(kind: &str, names: &[String]) -> String {
    let count = names.len();
    let plural = if count == 1 { "" } else { "s" };
    let shown = names.iter().take(NAMED).map(|name| format!("`{name}`"));
    let more = (count > NAMED).then(|| "…".to_owned());
    let shown: Vec<_> = shown.chain(more).collect();
    format!("{count} {kind}{plural} ({})", shown.join(", "))
}
