//! Why a host did not carry out a request for one volume.
//!
//! A host is the agent that calls the plugin of a call lock. The caller decides by questions, never by the
//! text: was the request certainly not sent to the plugin, may it have taken effect, can the plugin ever
//! carry it out, and is the request out of date. A request that was sent and got no clear answer may have taken effect, and may still
//! do so while the plugin's process lives.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::plugin::{Delivery, PluginError, Rpc, StatusCode};
use super::verdict::{verdict_of, verdict_unsent};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AllocId, ExternalId, HostSession, NodeId, PluginId, RemoteVolume, Term, shell_quoted,
};

/// An operation that a host carries out for one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostOperation {
    /// NodeStageVolume.
    Stage,
    /// NodePublishVolume.
    Publish,
    /// NodeUnpublishVolume.
    Unpublish,
    /// NodeUnstageVolume.
    Unstage,
    /// NodeExpandVolume.
    ExpandOnNode,
    /// The removal of whatever a node still has of the volume.
    Sweep,
    /// ControllerPublishVolume.
    Attach,
    /// ControllerUnpublishVolume.
    Detach,
    /// DeleteVolume.
    Delete,
    /// ControllerExpandVolume.
    Expand,
    /// ControllerModifyVolume.
    Modify,
    /// ValidateVolumeCapabilities.
    Validate,
    /// CreateSnapshot.
    Snapshot,
    /// CreateVolume.
    Create,
}

impl HostOperation {
    /// Returns the verb for messages: `stage`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Publish => "publish",
            Self::Unpublish => "unpublish",
            Self::Unstage => "unstage",
            Self::ExpandOnNode | Self::Expand => "expand",
            Self::Modify => "modify",
            Self::Sweep => "sweep",
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Validate => "validate",
            Self::Delete => "delete",
            Self::Snapshot => "snapshot",
            Self::Create => "create",
        }
    }
}

impl std::fmt::Display for HostOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.verb())
    }
}

/// A file operation on a host failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} `{}`: {reason}", path.display())]
pub struct HostFileError {
    /// The failed action: `create the directory`, `read the mounts at`.
    pub action: Cow<'static, str>,
    /// The path on the host.
    pub path: PathBuf,
    /// The kind of the error.
    pub kind: io::ErrorKind,
    /// The operating system's reason.
    pub reason: String,
}

impl HostFileError {
    /// The error of an action on a path.
    pub fn new(action: &'static str, path: &Path, error: &io::Error) -> Self {
        Self {
            action: action.into(),
            path: path.to_owned(),
            kind: error.kind(),
            reason: error.to_string(),
        }
    }

    /// Returns whether the file could be read, and has not what was written to it.
    pub fn is_damaged_file(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        matches!(self.kind, InvalidData | UnexpectedEof)
    }
}

/// A host did not carry out a request, or did not learn its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another call for the volume has not ended.
    #[error("plugin `{}` still works on a request to {running} volume `{}`", volume.plugin_id, volume.external_id)]
    Busy {
        /// The volume.
        volume: RemoteVolume,
        /// The operation that runs.
        running: HostOperation,
    },
    /// A request that was decided later has arrived before this one.
    #[error("request {number} for volume `{}` came after request {latest}, which was decided later", volume.external_id)]
    Overtaken {
        /// The volume.
        volume: RemoteVolume,
        /// The number of this request.
        number: u64,
        /// The highest number so far.
        latest: u64,
    },
    /// The request is of a server that leads no more.
    #[error("the request is of term {desired}, and another server has led since term {newest}")]
    OldTerm {
        /// The term of the request.
        desired: Term,
        /// The newest term that the host knows.
        newest: Term,
    },
    /// The request was made for an earlier run of the agent.
    #[error("the request is for session {desired} of the agent, which is now in session {own}")]
    OtherSession {
        /// The session of the request.
        desired: HostSession,
        /// The session of this process.
        own: HostSession,
    },
    /// The instance of the plugin does not run on this host.
    #[error("allocation `{instance}` does not run plugin `{plugin}` here")]
    NoPlugin {
        /// The plugin.
        plugin: PluginId,
        /// The allocation that the request names.
        instance: AllocId,
    },
    /// The plugin does not have a service or a capability that the request needs.
    #[error("plugin `{plugin}` does not support {what}")]
    Unsupported {
        /// The plugin.
        plugin: PluginId,
        /// CSI's name of the capability.
        what: Cow<'static, str>,
    },
    /// The plugin was started again with other capabilities than the request was decided for.
    #[error("plugin `{plugin}` has gained or lost {what} since the step was decided")]
    Changed {
        /// The plugin.
        plugin: PluginId,
        /// CSI's name of the capability.
        what: Cow<'static, str>,
    },
    /// The plugin refused the call, or its answer was lost.
    #[error("{0}")]
    Plugin(PluginError),
    /// The plugin's process ended before it answered, so the call has ended too.
    #[error(
        "the process of plugin `{plugin}` ended before it answered the request to {operation} volume `{volume}`"
    )]
    ProcessEnded {
        /// The plugin.
        plugin: PluginId,
        /// The operation.
        operation: HostOperation,
        /// The plugin's name of the volume.
        volume: ExternalId,
    },
    /// The plugin answered success, but the volume is not at its path.
    #[error("plugin `{plugin}` reports success, but `{}` is {found}", path.display())]
    NotThere {
        /// The plugin.
        plugin: PluginId,
        /// The path on the host.
        path: PathBuf,
        /// The state of the path: `not a mount point`.
        found: Cow<'static, str>,
    },
    /// The plugin answered success, but the mount is still there.
    #[error("plugin `{plugin}` reports success, but `{}` is still mounted", path.display())]
    StillThere {
        /// The plugin.
        plugin: PluginId,
        /// The path on the host.
        path: PathBuf,
    },
    /// The mounts are gone, and the file system is not.
    #[error("{}", still_open(volume, processes))]
    StillOpen {
        /// The plugin's name of the volume.
        volume: ExternalId,
        /// The processes that keep it, as far as they were found.
        processes: Vec<u32>,
    },
    /// The volume cannot be unstaged while a target is there.
    #[error("volume `{volume}` is still published at `{}`", path.display())]
    InUse {
        /// The plugin's name of the volume.
        volume: ExternalId,
        /// The target on the host.
        path: PathBuf,
    },
    /// The staging of the volume is not there any more. It is made again before the volume is published.
    #[error("{reason}")]
    StagingLost {
        /// The object that is there instead, with its path.
        reason: String,
    },
    /// Something is mounted below the agent's directories, and no file names its volume.
    #[error("`{}` is mounted, but no file beside it names its volume", path.display())]
    Unidentified {
        /// The path on the host.
        path: PathBuf,
    },
    /// Something else is mounted at the path.
    #[error("`{}` is already mounted for {found}", path.display())]
    Occupied {
        /// The path on the host.
        path: PathBuf,
        /// The volume that is mounted there, or `something else`.
        found: String,
    },
    /// The seal below a target cannot be removed, so the plugin could not remove the target.
    #[error("cannot remove the seal of what is below `{}`: {reason}", path.display())]
    Sealed {
        /// The target on the host.
        path: PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// A file operation failed before the plugin was called.
    #[error("{0}")]
    NotPrepared(HostFileError),
    /// A file operation failed after the plugin was called.
    #[error("the plugin was called, and then the agent failed: {0}")]
    NotFinished(HostFileError),
    /// The agent stops, and takes no more requests.
    #[error("the agent is stopping")]
    Stopping,
    /// The agent lost the call by an error of its own.
    #[error("the agent lost a request to {operation} volume `{volume}` by an error of its own")]
    Lost {
        /// The operation.
        operation: HostOperation,
        /// The plugin's name of the volume.
        volume: ExternalId,
    },
    /// There is no connection to the node, so nothing was sent to it.
    #[error("node `{node}` cannot be reached")]
    Unreachable {
        /// The node.
        node: NodeId,
    },
    /// The request may have reached the node, and its answer did not come back. The node runs what it got to its end.
    #[error("node `{node}` did not answer")]
    Unanswered {
        /// The node.
        node: NodeId,
    },
}

impl HostError {
    /// Returns whether the plugin certainly never received the request.
    pub fn was_not_sent(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Overtaken { .. }
            | Self::OldTerm { .. }
            | Self::OtherSession { .. }
            | Self::NoPlugin { .. }
            | Self::Unsupported { .. }
            | Self::Changed { .. }
            | Self::InUse { .. }
            | Self::StagingLost { .. }
            | Self::Unidentified { .. }
            | Self::Occupied { .. }
            | Self::Sealed { .. }
            | Self::NotPrepared(_)
            | Self::Stopping
            | Self::Unreachable { .. } => true,
            Self::Plugin(error) => error.delivery == Delivery::NotSent,
            Self::ProcessEnded { .. }
            | Self::NotThere { .. }
            | Self::StillThere { .. }
            | Self::StillOpen { .. }
            | Self::NotFinished(_)
            | Self::Lost { .. }
            | Self::Unanswered { .. } => false,
        }
    }

    /// Returns whether the request may have changed something, or may still do so.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Plugin(error) => error.verdict.may_have_taken_effect(),
            _ => !self.was_not_sent(),
        }
    }

    /// Returns whether the request was decided for another run of the host or the plugin, or before one that arrived. It says
    /// nothing about the step: decide again.
    pub fn is_out_of_date(&self) -> bool {
        matches!(
            self,
            Self::OldTerm { .. }
                | Self::OtherSession { .. }
                | Self::Overtaken { .. }
                | Self::Changed { .. }
        )
    }

    /// Returns whether the plugin can never carry out this step. A capability that it lacks, it had when the step was
    /// decided (rule 18 of the claims machine), so the next decision is another one.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Plugin(error) => error.verdict == Verdict::Permanent,
            Self::Unsupported { .. }
            | Self::Changed { .. }
            | Self::OldTerm { .. }
            | Self::OtherSession { .. }
            | Self::Overtaken { .. }
            | Self::Busy { .. }
            | Self::NoPlugin { .. }
            | Self::ProcessEnded { .. }
            | Self::NotThere { .. }
            | Self::StillThere { .. }
            | Self::StillOpen { .. }
            | Self::InUse { .. }
            | Self::StagingLost { .. }
            | Self::Unidentified { .. }
            | Self::Occupied { .. }
            | Self::Sealed { .. }
            | Self::NotPrepared(_)
            | Self::NotFinished(_)
            | Self::Stopping
            | Self::Lost { .. }
            | Self::Unreachable { .. }
            | Self::Unanswered { .. } => false,
        }
    }

    /// Returns whether the plugin answered that it has no room for the volume.
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::Plugin(error) if error.code == StatusCode::ResourceExhausted)
    }

    /// Returns the remedy; `None` if the agent repeats the request by itself.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Busy { volume, .. } => {
                format!("wait for plugin `{}`, or restart it if it never answers", volume.plugin_id)
            }
            Self::NoPlugin { plugin, .. } | Self::ProcessEnded { plugin, .. } => {
                format!("check that plugin `{plugin}` runs")
            }
            Self::Unsupported { plugin, .. } => {
                format!("use a plugin other than `{plugin}` for this volume")
            }
            Self::NotThere { plugin, .. } | Self::StillThere { plugin, .. } => {
                format!("check the logs of plugin `{plugin}`, and that its mounts reach the host")
            }
            Self::Occupied { path, .. } | Self::Unidentified { path } => {
                format!("unmount `{}`", path.display())
            }
            Self::Sealed { path, .. } => format!(
                "run the agent as root with the capability `CAP_LINUX_IMMUTABLE`; or stop the tasks of the volume, \
                 unmount `{}`, and run `chattr -i {}`",
                path.display(),
                shell_quoted(path.to_string_lossy())
            ),
            Self::NotPrepared(error) | Self::NotFinished(error) if error.is_damaged_file() => {
                format!(
                    "make sure that no process on the node has files of the volume open, and empty the record: run `truncate -s 0 {}`",
                    shell_quoted(error.path.to_string_lossy())
                )
            }
            Self::NotPrepared(error) | Self::NotFinished(error) => {
                format!("check `{}`", error.path.display())
            }
            Self::StillOpen { processes, .. } if processes.is_empty() => {
                "end what got an open file from a task of the volume".to_owned()
            }
            Self::StillOpen { processes, .. } => {
                format!("end what has process ID {}; the release then goes on", listed(processes))
            }
            Self::Plugin(_)
            | Self::Changed { .. }
            | Self::OldTerm { .. }
            | Self::Overtaken { .. }
            | Self::OtherSession { .. }
            | Self::InUse { .. }
            | Self::StagingLost { .. }
            | Self::Stopping
            | Self::Lost { .. }
            | Self::Unanswered { .. } => return None,
            Self::Unreachable { node } => {
                format!("check that the agent of node `{node}` runs and reaches the servers")
            }
        })
    }

    /// Converts it to the error of a call of the plugin. A call lock that is busy answers `ABORTED` as CSI names it.
    pub fn into_plugin_error(self, rpc: Rpc) -> PluginError {
        let (code, is_unsent) = match &self {
            Self::Plugin(_) => (StatusCode::Unknown, false),
            Self::Busy { .. } => (StatusCode::Aborted, true),
            error => (StatusCode::Unavailable, error.was_not_sent()),
        };
        match self {
            Self::Plugin(error) => error,
            error => PluginError {
                rpc,
                code,
                verdict: if is_unsent { verdict_unsent(rpc) } else { verdict_of(rpc, code) },
                message: error.to_string(),
                delivery: if is_unsent { Delivery::NotSent } else { Delivery::Unanswered },
            },
        }
    }
}

fn still_open(volume: &ExternalId, processes: &[u32]) -> String {
    let which = match processes {
        [] => "something that no process shows".to_owned(),
        _ => format!("PID {}", listed(processes)),
    };
    format!("a process outside of the task still has files of volume `{volume}` open: {which}")
}

fn listed(processes: &[u32]) -> String {
    let processes: Vec<_> = processes.iter().map(ToString::to_string).collect();
    processes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Rpc;
    use crate::verdict::{verdict_of, verdict_unsent};

    const STEPS: [Rpc; 7] = [
        Rpc::ControllerPublishVolume,
        Rpc::ControllerUnpublishVolume,
        Rpc::NodeStageVolume,
        Rpc::NodeUnstageVolume,
        Rpc::NodePublishVolume,
        Rpc::NodeUnpublishVolume,
        Rpc::NodeExpandVolume,
    ];

    fn refused(rpc: Rpc, code: StatusCode, verdict: Verdict, delivery: Delivery) -> HostError {
        HostError::Plugin(PluginError { rpc, code, verdict, message: String::new(), delivery })
    }

    /// Only a failed connection proves that the plugin did not get the call.
    #[test]
    fn an_answer_of_the_plugin_proves_that_the_request_was_sent() {
        for rpc in STEPS {
            let unsent =
                refused(rpc, StatusCode::Unavailable, verdict_unsent(rpc), Delivery::NotSent);
            assert!(unsent.was_not_sent() && !unsent.may_have_taken_effect());
            for code in StatusCode::ALL {
                let answered = refused(rpc, code, verdict_of(rpc, code), Delivery::Answered);
                assert!(!answered.was_not_sent(), "{rpc} {code:?}");
                let verdict = verdict_of(rpc, code);
                assert_eq!(answered.is_permanent(), verdict == Verdict::Permanent);
            }
        }
    }

    /// A restart of the host says nothing about the plugin, so it never ends a claim.
    #[test]
    fn a_request_that_is_out_of_date_is_not_impossible() {
        let volume = RemoteVolume { plugin_id: "p".into(), external_id: "v".into() };
        for error in [
            HostError::OtherSession { desired: "before".into(), own: "now".into() },
            HostError::Overtaken { volume, number: 1, latest: 2 },
            HostError::OldTerm {
                desired: Term { epoch: 0, revision: 1 },
                newest: Term { epoch: 0, revision: 2 },
            },
        ] {
            assert!(error.is_out_of_date() && error.was_not_sent() && !error.is_permanent());
        }
    }

    #[test]
    fn what_was_not_sent_has_no_effect() {
        let volume = RemoteVolume { plugin_id: "p".into(), external_id: "v".into() };
        let path = PathBuf::from("/t");
        let file = HostFileError::new("read", &path, &io::ErrorKind::NotFound.into());
        let (operation, name) = (HostOperation::Stage, volume.external_id.clone());
        for (error, is_sent) in [
            (HostError::Busy { volume: volume.clone(), running: operation }, false),
            (HostError::NotPrepared(file.clone()), false),
            (HostError::NotFinished(file), true),
            (HostError::Stopping, false),
            (
                HostError::ProcessEnded {
                    plugin: volume.plugin_id,
                    operation,
                    volume: name.clone(),
                },
                true,
            ),
            (HostError::Lost { operation, volume: name }, true),
            (HostError::Unreachable { node: "n".into() }, false),
            (HostError::Unanswered { node: "n".into() }, true),
        ] {
            assert_eq!(error.was_not_sent(), !is_sent, "{error}");
            assert_eq!(error.may_have_taken_effect(), is_sent, "{error}");
            assert!(!error.is_permanent(), "{error}");
        }
    }
}
