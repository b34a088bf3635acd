//! [`HostError`] as a message, and back.
//!
//! What comes back equals what was sent, because its reader decides by it whether a call may have taken effect. A failure that
//! cannot be read is not one of these.

use std::io;

use super::enumeration::{
    code, delivery, from_code, from_delivery, from_operation, from_rpc, from_verdict, operation,
    verdict,
};
use super::field::{Malformed, Transfer, from_path, path, required};
use super::messages;
use super::messages::host_failure::{
    self, Busy, FileFailure, InUse, Lost, NotThere, OldTerm, OtherSession, Overtaken, PathFailure,
    PluginCapability, ProcessEnded, StillOpen, StillThere, Why,
};
use nomad_csi_model::{AllocId, NodeId, PluginId};
use nomad_csi_ports::{HostError, HostFileError, PluginError};

impl Transfer for PluginError {
    type Message = messages::PluginFailure;

    fn write(self) -> messages::PluginFailure {
        messages::PluginFailure {
            rpc: self.rpc.as_str().to_owned(),
            code: code(self.code),
            verdict: verdict(self.verdict),
            message: self.message,
            delivery: delivery(self.delivery),
        }
    }

    fn read(message: messages::PluginFailure) -> Result<Self, Malformed> {
        Ok(Self {
            rpc: from_rpc(&message.rpc)?,
            code: from_code(message.code)?,
            verdict: from_verdict(message.verdict)?,
            message: message.message,
            delivery: from_delivery(message.delivery)?,
        })
    }
}

impl Transfer for HostFileError {
    type Message = FileFailure;

    fn write(self) -> FileFailure {
        FileFailure {
            action: self.action.into_owned(),
            path: path(&self.path),
            kind: format!("{:?}", self.kind),
            reason: self.reason,
        }
    }

    fn read(message: FileFailure) -> Result<Self, Malformed> {
        Ok(Self {
            action: message.action.into(),
            path: from_path(message.path),
            kind: kind_named(&message.kind),
            reason: message.reason,
        })
    }
}

/// Kinds that no error number has.
const OTHER_KINDS: [io::ErrorKind; 5] = [
    io::ErrorKind::InvalidData,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::WriteZero,
    io::ErrorKind::Unsupported,
    io::ErrorKind::Other,
];

/// The highest error number of Linux.
const LAST_ERROR_NUMBER: i32 = 133;

/// Returns the kind of this name. The list of kinds is open, and some are not yet named in the language: the error numbers
/// have them.
fn kind_named(name: &str) -> io::ErrorKind {
    let of_numbers =
        (0..=LAST_ERROR_NUMBER).map(|number| io::Error::from_raw_os_error(number).kind());
    let mut known = OTHER_KINDS.into_iter().chain(of_numbers);
    known.find(|kind| format!("{kind:?}") == name).unwrap_or(io::ErrorKind::Other)
}

fn capability(plugin: &PluginId, what: &str) -> PluginCapability {
    PluginCapability { plugin_id: plugin.as_str().to_owned(), what: what.to_owned() }
}

impl Transfer for HostError {
    type Message = messages::HostFailure;

    fn write(self) -> messages::HostFailure {
        messages::HostFailure { why: Some(why(self)) }
    }

    fn read(message: messages::HostFailure) -> Result<Self, Malformed> {
        from_why(message.why.ok_or(Malformed("why"))?)
    }
}

fn why(error: HostError) -> Why {
    match error {
        HostError::Busy { volume, running } => {
            Why::Busy(Busy { volume: Some(volume.write()), running: operation(running) })
        }
        HostError::Overtaken { volume, number, latest } => {
            Why::Overtaken(Overtaken { volume: Some(volume.write()), number, latest })
        }
        HostError::OldTerm { desired, newest } => {
            Why::OldTerm(OldTerm { desired: Some(desired.write()), newest: Some(newest.write()) })
        }
        HostError::OtherSession { desired, own } => Why::OtherSession(OtherSession {
            desired: desired.as_str().to_owned(),
            own: own.as_str().to_owned(),
        }),
        HostError::NoPlugin { plugin, instance } => Why::NoPlugin(messages::PluginInstance {
            plugin_id: plugin.as_str().to_owned(),
            alloc: instance.as_str().to_owned(),
        }),
        HostError::Unsupported { plugin, what } => Why::Unsupported(capability(&plugin, &what)),
        HostError::Changed { plugin, what } => Why::Changed(capability(&plugin, &what)),
        HostError::Plugin(error) => Why::Plugin(error.write()),
        HostError::ProcessEnded { plugin, operation: running, volume } => {
            Why::ProcessEnded(ProcessEnded {
                plugin_id: plugin.as_str().to_owned(),
                operation: operation(running),
                volume: volume.as_str().to_owned(),
            })
        }
        HostError::NotThere { plugin, path: at, found } => Why::NotThere(NotThere {
            plugin_id: plugin.as_str().to_owned(),
            path: path(&at),
            found: found.into_owned(),
        }),
        HostError::StillThere { plugin, path: at } => {
            Why::StillThere(StillThere { plugin_id: plugin.as_str().to_owned(), path: path(&at) })
        }
        HostError::StillOpen { volume, processes } => {
            Why::StillOpen(StillOpen { volume: volume.as_str().to_owned(), processes })
        }
        HostError::InUse { volume, path: at } => {
            Why::InUse(InUse { volume: volume.as_str().to_owned(), path: path(&at) })
        }
        HostError::StagingLost { reason } => Why::StagingLost(reason),
        HostError::Unidentified { path: at } => Why::Unidentified(path(&at)),
        HostError::Occupied { path: at, found } => {
            Why::Occupied(PathFailure { path: path(&at), reason: found })
        }
        HostError::Sealed { path: at, reason } => {
            Why::Sealed(PathFailure { path: path(&at), reason })
        }
        HostError::NotPrepared(error) => Why::NotPrepared(error.write()),
        HostError::NotFinished(error) => Why::NotFinished(error.write()),
        HostError::Stopping => Why::Stopping(messages::Nothing {}),
        HostError::Lost { operation: lost, volume } => {
            Why::Lost(Lost { operation: operation(lost), volume: volume.as_str().to_owned() })
        }
        HostError::Unreachable { node } => Why::Unreachable(node.as_str().to_owned()),
        HostError::Unanswered { node } => Why::Unanswered(node.as_str().to_owned()),
    }
}

fn from_why(why: Why) -> Result<HostError, Malformed> {
    Ok(match why {
        Why::Busy(busy) => HostError::Busy {
            volume: required(busy.volume, "volume")?,
            running: from_operation(busy.running)?,
        },
        Why::Overtaken(Overtaken { volume, number, latest }) => {
            HostError::Overtaken { volume: required(volume, "volume")?, number, latest }
        }
        Why::OldTerm(OldTerm { desired, newest }) => HostError::OldTerm {
            desired: required(desired, "desired")?,
            newest: required(newest, "newest")?,
        },
        Why::OtherSession(OtherSession { desired, own }) => {
            HostError::OtherSession { desired: desired.as_str().into(), own: own.as_str().into() }
        }
        Why::NoPlugin(instance) => HostError::NoPlugin {
            plugin: PluginId::new(instance.plugin_id),
            instance: AllocId::new(instance.alloc),
        },
        Why::Unsupported(PluginCapability { plugin_id, what }) => {
            HostError::Unsupported { plugin: PluginId::new(plugin_id), what: what.into() }
        }
        Why::Changed(PluginCapability { plugin_id, what }) => {
            HostError::Changed { plugin: PluginId::new(plugin_id), what: what.into() }
        }
        Why::Plugin(error) => HostError::Plugin(PluginError::read(error)?),
        Why::ProcessEnded(ProcessEnded { plugin_id, operation, volume }) => {
            HostError::ProcessEnded {
                plugin: PluginId::new(plugin_id),
                operation: from_operation(operation)?,
                volume: volume.as_str().into(),
            }
        }
        Why::NotThere(NotThere { plugin_id, path, found }) => HostError::NotThere {
            plugin: PluginId::new(plugin_id),
            path: from_path(path),
            found: found.into(),
        },
        Why::StillThere(StillThere { plugin_id, path }) => {
            HostError::StillThere { plugin: PluginId::new(plugin_id), path: from_path(path) }
        }
        Why::StillOpen(StillOpen { volume, processes }) => {
            HostError::StillOpen { volume: volume.as_str().into(), processes }
        }
        Why::InUse(InUse { volume, path }) => {
            HostError::InUse { volume: volume.as_str().into(), path: from_path(path) }
        }
        Why::StagingLost(reason) => HostError::StagingLost { reason },
        Why::Unidentified(path) => HostError::Unidentified { path: from_path(path) },
        Why::Occupied(PathFailure { path, reason }) => {
            HostError::Occupied { path: from_path(path), found: reason }
        }
        Why::Sealed(PathFailure { path, reason }) => {
            HostError::Sealed { path: from_path(path), reason }
        }
        Why::NotPrepared(error) => HostError::NotPrepared(HostFileError::read(error)?),
        Why::NotFinished(error) => HostError::NotFinished(HostFileError::read(error)?),
        Why::Stopping(messages::Nothing {}) => HostError::Stopping,
        Why::Lost(host_failure::Lost { operation, volume }) => HostError::Lost {
            operation: from_operation(operation)?,
            volume: volume.as_str().into(),
        },
        Why::Unreachable(node) => HostError::Unreachable { node: NodeId::new(node) },
        Why::Unanswered(node) => HostError::Unanswered { node: NodeId::new(node) },
    })
}
