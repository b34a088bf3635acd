//! Conversions of the types that many messages have.
//!
//! A message comes from another machine and perhaps from another version: whatever does not convert is [`Malformed`], with the
//! name of its field and without its value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::messages;
use nomad_csi_model::{
    AllocId, Bytes, NamespacedId, RemoteVolume, Secrets, Term, VolumeAlias, VolumeId,
};
use nomad_csi_ports::{CallOrder, LogPosition, PageRequest};

/// A field of a message is missing, or has a value that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field `{0}` is missing or not known")]
pub(super) struct Malformed(pub(super) &'static str);

/// A type of a port that travels in a message.
pub(super) trait Transfer: Sized {
    /// The message.
    type Message;

    /// Returns the message.
    fn write(self) -> Self::Message;

    /// Reads the message.
    ///
    /// # Errors
    /// If a field is missing or not known.
    fn read(message: Self::Message) -> Result<Self, Malformed>;
}

/// Reads a field that has to be there.
pub(super) fn required<T: Transfer>(
    field: Option<T::Message>,
    name: &'static str,
) -> Result<T, Malformed> {
    T::read(field.ok_or(Malformed(name))?)
}

/// Returns the JSON of a type of the model. If it cannot be written, the result is no JSON, and its reader refuses it.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads the JSON of a type of the model.
pub(super) fn from_json<T: DeserializeOwned>(
    json: &[u8],
    name: &'static str,
) -> Result<T, Malformed> {
    serde_json::from_slice(json).map_err(|_| Malformed(name))
}

/// Reads JSON that may be absent.
pub(super) fn from_optional_json<T: DeserializeOwned>(
    json: Option<Vec<u8>>,
    name: &'static str,
) -> Result<Option<T>, Malformed> {
    json.map(|json| from_json(&json, name)).transpose()
}

pub(super) fn path(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn from_path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Returns the secrets in plain text. No message has a `Debug`.
pub(super) fn secrets(secrets: &Secrets) -> BTreeMap<String, String> {
    secrets.expose().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub(super) fn from_secrets(entries: BTreeMap<String, String>) -> Secrets {
    let mut secrets = Secrets::default();
    for (key, value) in entries {
        secrets.insert(key, value);
    }
    secrets
}

/// Reads a number of bytes.
pub(super) fn bytes(number: u64, name: &'static str) -> Result<Bytes, Malformed> {
    Bytes::new(number).ok_or(Malformed(name))
}

impl Transfer for Term {
    type Message = messages::Term;

    fn write(self) -> messages::Term {
        messages::Term { epoch: self.epoch, revision: self.revision }
    }

    fn read(message: messages::Term) -> Result<Self, Malformed> {
        Ok(Self { epoch: message.epoch, revision: message.revision })
    }
}

impl Transfer for CallOrder {
    type Message = messages::CallOrder;

    fn write(self) -> messages::CallOrder {
        messages::CallOrder {
            term: Some(self.term.write()),
            number: self.number,
            session: self.session.as_str().to_owned(),
            instance: self.instance.as_str().to_owned(),
        }
    }

    fn read(message: messages::CallOrder) -> Result<Self, Malformed> {
        Ok(Self {
            term: required(message.term, "term")?,
            number: message.number,
            session: message.session.as_str().into(),
            instance: AllocId::new(message.instance),
        })
    }
}

impl Transfer for RemoteVolume {
    type Message = messages::RemoteVolume;

    fn write(self) -> messages::RemoteVolume {
        messages::RemoteVolume {
            plugin_id: self.plugin_id.as_str().to_owned(),
            external_id: self.external_id.as_str().to_owned(),
        }
    }

    fn read(message: messages::RemoteVolume) -> Result<Self, Malformed> {
        Ok(Self {
            plugin_id: message.plugin_id.as_str().into(),
            external_id: message.external_id.as_str().into(),
        })
    }
}

impl Transfer for NamespacedId {
    type Message = messages::VolumeName;

    fn write(self) -> messages::VolumeName {
        messages::VolumeName {
            namespace: self.namespace.as_str().to_owned(),
            id: self.id.as_str().to_owned(),
        }
    }

    fn read(message: messages::VolumeName) -> Result<Self, Malformed> {
        Ok(Self::new(message.namespace.as_str().into(), VolumeId::new(message.id)))
    }
}

impl Transfer for (AllocId, VolumeAlias) {
    type Message = messages::AllocVolume;

    fn write(self) -> messages::AllocVolume {
        messages::AllocVolume {
            alloc: self.0.as_str().to_owned(),
            alias: self.1.as_str().to_owned(),
        }
    }

    fn read(message: messages::AllocVolume) -> Result<Self, Malformed> {
        Ok((AllocId::new(message.alloc), VolumeAlias::new(message.alias)))
    }
}

impl Transfer for PageRequest {
    type Message = messages::Page;

    fn write(self) -> messages::Page {
        messages::Page { entries: self.entries, starting_token: self.starting_token }
    }

    fn read(message: messages::Page) -> Result<Self, Malformed> {
        Ok(Self { entries: message.entries, starting_token: message.starting_token })
    }
}

impl Transfer for LogPosition {
    type Message = messages::LogPosition;

    fn write(self) -> messages::LogPosition {
        messages::LogPosition { run: self.run, file: self.file, offset: self.offset }
    }

    fn read(message: messages::LogPosition) -> Result<Self, Malformed> {
        Ok(Self { run: message.run, file: message.file, offset: message.offset })
    }
}
