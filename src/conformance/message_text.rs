//! Messages as text: `CreateVolume {name: "a", capacity_range: {required_bytes: 1}}`.
//!
//! The source is the `Debug` output of a message, which hides secrets (`csi::proto`). The text omits
//! default values, as the wire does, and also `Some(…)` and type names. Secrets of this run that occur
//! elsewhere, such as in a plugin's error message, are replaced.

use std::fmt::Debug;

use nomad_csi_model::{SecretValues, Secrets};

/// The maximum length in bytes. Longer texts are cut in the middle.
const MAX_LENGTH: usize = 1_500;

/// Formats a request after the name of its RPC.
pub(super) fn request_text(rpc: &str, message: &impl Debug) -> String {
    let fields = fields(message);
    if fields.is_empty() {
        return rpc.to_owned();
    }
    cut(&format!("{rpc} {fields}"))
}

/// Formats a successful response.
pub(super) fn response_text(message: &impl Debug) -> String {
    let fields = fields(message);
    if fields.is_empty() {
        return "OK".to_owned();
    }
    cut(&format!("OK {fields}"))
}

/// Replaces the values of `secrets` in `text`.
pub(super) fn redact_secrets(text: &str, secrets: &Secrets) -> String {
    let hidden = secret_values(secrets).hidden_in(text);
    hidden.unwrap_or_else(|| text.to_owned())
}

/// Returns whether `text` contains the value of a secret. Values of up to three bytes do not count.
pub(super) fn contains_secret(text: &str, secrets: &Secrets) -> bool {
    secret_values(secrets).hidden_in(text).is_some()
}

fn secret_values(secrets: &Secrets) -> SecretValues {
    let mut values = SecretValues::default();
    secrets.expose().for_each(|(_, value)| values.add(value));
    values
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_LENGTH {
        return text.to_owned();
    }
    let half = MAX_LENGTH / 2;
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=half).rev().find(boundary).unwrap_or_default();
    let end = (text.len() - half..text.len()).find(boundary);
    let end = end.unwrap_or(text.len());
    format!("{}…{}", &text[..start], &text[end..])
}

fn fields(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    // A message without fields is its type's name.
    if !text.contains('{') {
        return String::new();
    }
    let shown = DebugReader { rest: &text }.value();
    shown.unwrap_or_default()
}

/// Parses `Debug` output. A default value is `None`.
struct DebugReader<'a> {
    rest: &'a str,
}

impl DebugReader<'_> {
    fn value(&mut self) -> Option<String> {
        self.blank();
        match self.rest.chars().next() {
            Some('"') => Some(self.quoted()).filter(|text| text != "\"\""),
            Some('[') => self.list('[', ']', Self::value_or_default),
            Some('{') => self.list('{', '}', Self::entry),
            _ => self.named(),
        }
    }

    fn value_or_default(&mut self) -> Option<String> {
        let start = self.rest;
        let value = self.value();
        let read = &start[..start.len() - self.rest.len()];
        Some(value.unwrap_or_else(|| read.trim().to_owned()))
    }

    /// A word, a struct, or a word around one value.
    fn named(&mut self) -> Option<String> {
        let end = self
            .rest
            .find([' ', ',', '(', ')', '{', '}', '[', ']', ':'])
            .unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            let inner = self.value();
            self.blank();
            self.rest = self.rest.strip_prefix(')').unwrap_or(self.rest);
            return match word.as_str() {
                // A message that is present but empty differs from an absent one.
                "Some" => Some(inner.unwrap_or_else(|| "{}".to_owned())),
                arm => {
                    // A message without fields is its type's name.
                    let inner = inner.filter(|inner| inner.contains(['{', '"']));
                    let inner = inner.unwrap_or_else(|| "{}".to_owned());
                    Some(format!("{}: {inner}", arm.to_lowercase()))
                }
            };
        }
        if let Some(rest) = self.rest.strip_prefix(" {") {
            self.rest = rest;
            return self.members('}', Self::entry);
        }
        // Secrets read `2 hidden`.
        if self.rest.starts_with(" hidden") {
            self.rest = &self.rest[" hidden".len()..];
            return Some(format!("{word} hidden"));
        }
        let default = ["", "None", "0", "false", "none"].contains(&word.as_str());
        (!default).then_some(word)
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        member: fn(&mut Self) -> Option<String>,
    ) -> Option<String> {
        self.rest = self.rest.strip_prefix(open).unwrap_or(self.rest);
        let shown = self.members(close, member)?;
        if open == '[' {
            return Some(format!("[{}]", &shown[1..shown.len() - 1]));
        }
        Some(shown)
    }

    fn members(&mut self, close: char, member: fn(&mut Self) -> Option<String>) -> Option<String> {
        let mut shown = vec![];
        loop {
            self.blank();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                break;
            }
            if self.rest.is_empty() {
                break;
            }
            let before = self.rest.len();
            shown.extend(member(self));
            self.blank();
            self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
            if self.rest.len() == before {
                break;
            }
        }
        (!shown.is_empty()).then(|| format!("{{{}}}", shown.join(", ")))
    }

    /// Reads `key: value`. A default value is `None`.
    fn entry(&mut self) -> Option<String> {
        self.blank();
        let key = if self.rest.starts_with('"') {
            self.quoted().trim_matches('"').to_owned()
        } else {
            let end = self.rest.find(':').unwrap_or(self.rest.len());
            let key = self.rest[..end].trim_start_matches("r#").to_owned();
            self.rest = &self.rest[end..];
            key
        };
        self.rest = self.rest.strip_prefix(':').unwrap_or(self.rest);
        let value = self.value()?;
        // The variant of a oneof has its own name.
        if key == "type" || key == "access_type" {
            return Some(value);
        }
        Some(format!("{key}: {value}"))
    }

    fn quoted(&mut self) -> String {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let end = end.map_or(self.rest.len(), |(at, _)| at + 1);
        let text = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        text
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_proto::volume_capability::access_mode::Mode;
    use nomad_csi_proto::volume_capability::{AccessMode, AccessType, MountVolume};
    use nomad_csi_proto::{
        CapacityRange, CreateVolumeRequest, DeleteVolumeResponse, ListVolumesRequest,
        VolumeCapability,
    };

    #[test]
    fn a_message_shows_its_set_fields_and_no_secret() {
        let message = CreateVolumeRequest {
            name: "a \"b\", {c}".to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: 5, limit_bytes: 0 }),
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }],
            parameters: [("kind".to_owned(), "fast".to_owned())].into(),
            secrets: [("token".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(
            request_text("CreateVolume", &message),
            "CreateVolume {name: \"a \\\"b\\\", {c}\", capacity_range: {required_bytes: 5}, \
             volume_capabilities: [{access_mode: {mode: SingleNodeWriter}, mount: {}}], \
             parameters: {kind: \"fast\"}, secrets: 1 hidden}"
        );
    }

    #[test]
    fn default_values_are_omitted() {
        assert_eq!(response_text(&DeleteVolumeResponse {}), "OK");
        let list = ListVolumesRequest { max_entries: -1, starting_token: String::new() };
        assert_eq!(request_text("ListVolumes", &list), "ListVolumes {max_entries: -1}");
    }

    #[test]
    fn long_messages_are_cut_at_character_boundaries() {
        let list = ListVolumesRequest { max_entries: 0, starting_token: "ü".repeat(MAX_LENGTH) };
        let shown = request_text("ListVolumes", &list);
        assert!(shown.len() < MAX_LENGTH + 20 && shown.contains('…'));
    }

    #[test]
    fn secrets_in_messages_are_replaced() {
        let secrets = Secrets::from_iter([("a".to_owned(), "hunter2".to_owned())]);
        assert!(contains_secret("bad token hunter2", &secrets));
        assert_eq!(redact_secrets("bad token hunter2", &secrets), "bad token [REDACTED]");
    }
}
