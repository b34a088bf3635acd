//! What of a plugin's answer is hidden.
//!
//! [`CallSecrets`] is the one place that an answer and an error of a plugin pass. A text
//! for people loses the values of secrets. An address is sent back in later calls and cannot lose a part:
//! an answer whose address holds a whole secret is refused. A context is sent back too; who records it seals it
//! (`server::sealing`).

use parking_lot::Mutex;

use nomad_csi_model::SecretValues;
use nomad_csi_ports::SentSecrets;
use nomad_csi_proto::{MessageTexts, TextKind};

/// The secrets that were sent to the plugin of one connection. A plugin may repeat one in an answer to a later call.
#[derive(Debug, Default)]
pub(super) struct CallSecrets(Mutex<KnownSecrets>);

#[derive(Debug)]
struct KnownSecrets {
    /// Values of `secrets`: neither a text for people nor an address may contain one.
    secrets: SecretValues,
    /// Values of publish contexts, and mount flags: no text for people may contain one. An address may, because a publish
    /// context often has the ID of the volume, and an ID begins with the server that a mount flag names.
    sealed: SecretValues,
}

impl Default for KnownSecrets {
    fn default() -> Self {
        Self { secrets: SecretValues::default(), sealed: SecretValues::only_whole() }
    }
}

impl KnownSecrets {
    fn hidden_in(&self, text: &str) -> Option<String> {
        let without_secrets = self.secrets.hidden_in(text);
        let sealed = without_secrets.as_deref().unwrap_or(text);
        self.sealed.hidden_in(sealed).or(without_secrets)
    }
}

impl CallSecrets {
    /// Remembers the secrets of a request.
    pub(super) fn note(&self, request: &mut impl MessageTexts) {
        let mut addresses = vec![];
        request.visit(&mut |kind, text| {
            if kind == TextKind::Address {
                addresses.push(text.clone());
            }
        });
        self.with(|known| {
            request.visit(&mut |kind, text| match kind {
                TextKind::Secret => known.secrets.add(text),
                TextKind::Sealed if !addresses.iter().any(|address| address.contains(&**text)) => {
                    known.sealed.add(text);
                }
                TextKind::Sealed | TextKind::Shown | TextKind::Address | TextKind::Context => {}
            });
        });
    }

    /// Remembers what was sent before.
    pub(super) fn note_sent(&self, sent: &SentSecrets) {
        self.with(|known| {
            sent.secrets().for_each(|value| known.secrets.add(value));
            sent.sealed().for_each(|value| known.sealed.add(value));
        });
    }

    /// Returns the text without secrets.
    pub(super) fn hidden_in(&self, text: String) -> String {
        self.with(|known| known.hidden_in(&text)).unwrap_or(text)
    }

    /// Hides secrets in the texts for people.
    ///
    /// # Errors
    /// If an address holds a secret: it would be shown everywhere, and without it, it leads nowhere.
    pub(super) fn hide_in(&self, answer: &mut impl MessageTexts) -> Result<(), SecretInAddress> {
        self.with(|known| {
            let mut found = Ok(());
            answer.visit(&mut |kind, text| match kind {
                TextKind::Shown => {
                    if let Some(hidden) = known.hidden_in(text) {
                        *text = hidden;
                    }
                }
                TextKind::Address => {
                    if known.secrets.is_in_address(text) {
                        found = Err(SecretInAddress);
                    }
                }
                TextKind::Context | TextKind::Sealed | TextKind::Secret => {}
            });
            found
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut KnownSecrets) -> T) -> T {
        work(&mut self.0.lock())
    }
}

/// An address of an answer holds a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an ID, a token or a key of the answer contains a secret that was sent to the plugin")]
pub(super) struct SecretInAddress;

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_proto::GetPluginInfoResponse;

    /// The secret of another plugin, such as the kind of a backend, is a part of many names.
    #[test]
    fn the_name_of_a_plugin_is_kept_or_refused() {
        let mut sent = SentSecrets::default();
        sent.add_sealed("ceph");
        sent.add_secret("rbd-secret");
        let secrets = CallSecrets::default();
        secrets.note_sent(&sent);
        let mut answer = GetPluginInfoResponse {
            name: "rbd.csi.ceph.com".to_owned(),
            vendor_version: "of ceph".to_owned(),
            ..GetPluginInfoResponse::default()
        };
        assert_eq!(secrets.hide_in(&mut answer), Ok(()));
        assert_eq!(answer.name, "rbd.csi.ceph.com");
        assert_eq!(answer.vendor_version, "of [REDACTED]");
        answer.name = "rbd-secret.example".to_owned();
        assert_eq!(secrets.hide_in(&mut answer), Err(SecretInAddress));
    }
}
