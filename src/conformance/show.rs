//! Messages as people read them: `CreateVolume {name: "a", capacity_range: {required_bytes: 1}}`.
//!
//! Made from a message's `Debug`, which hides secrets (`csi::proto`). What is at its default is left
//! out, as it is on the wire; `Some(…)` and type names are left out too. Secrets of this run that
//! turn up anywhere else, as in a plugin's error message, are replaced.

use std::fmt::Debug;

use crate::model::Secrets;

/// Longer texts are cut in the middle.
const LONGEST: usize = 1_500;

/// A request under its RPC's name.
pub(super) fn request(rpc: &str, message: &impl Debug) -> String {
    let fields = fields(message);
    if fields.is_empty() {
        return rpc.to_owned();
    }
    cut(&format!("{rpc} {fields}"))
}

/// A good answer.
pub(super) fn answer(message: &impl Debug) -> String {
    let fields = fields(message);
    if fields.is_empty() {
        return "OK".to_owned();
    }
    cut(&format!("OK {fields}"))
}

/// `text` without the values of `secrets`.
pub(super) fn without_secrets(text: &str, secrets: &Secrets) -> String {
    let mut shown = text.to_owned();
    for value in values(secrets) {
        shown = shown.replace(value, "[secret]");
    }
    shown
}

/// Whether `text` holds a secret's value. Values of up to three bytes are everywhere.
pub(super) fn holds_secret(text: &str, secrets: &Secrets) -> bool {
    values(secrets).any(|value| text.contains(value))
}

fn values(secrets: &Secrets) -> impl Iterator<Item = &str> {
    let values = secrets.expose().map(|(_, value)| value);
    values.filter(|value| value.len() > 3)
}

fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let half = LONGEST / 2;
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
    let shown = Reader { rest: &text }.value();
    shown.unwrap_or_default()
}

/// Reads `Debug`'s output; a value at its default is `None`.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
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
                // A message that is there and empty differs from one that is not.
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
        // `2 hidden` of secrets.
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

    /// `key: value`; nothing if the value is at its default.
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
        // A oneof arm names itself.
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
    use crate::csi::proto::volume_capability::access_mode::Mode;
    use crate::csi::proto::volume_capability::{AccessMode, AccessType, MountVolume};
    use crate::csi::proto::{
        CapacityRange, CreateVolumeRequest, DeleteVolumeResponse, ListVolumesRequest,
        VolumeCapability,
    };

    #[test]
    fn a_message_shows_what_is_on_the_wire_and_no_secret() {
        let message = CreateVolumeRequest {
            name: "a \"b\", {c}".to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: 5,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(AccessMode {
                    mode: Mode::SingleNodeWriter.into(),
                }),
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }],
            parameters: [("kind".to_owned(), "fast".to_owned())].into(),
            secrets: [("token".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(
            request("CreateVolume", &message),
            "CreateVolume {name: \"a \\\"b\\\", {c}\", capacity_range: {required_bytes: 5}, \
             volume_capabilities: [{access_mode: {mode: SingleNodeWriter}, mount: {}}], \
             parameters: {kind: \"fast\"}, secrets: 1 hidden}"
        );
    }

    #[test]
    fn what_is_empty_is_not_shown() {
        assert_eq!(answer(&DeleteVolumeResponse {}), "OK");
        let list = ListVolumesRequest {
            max_entries: -1,
            starting_token: String::new(),
        };
        assert_eq!(
            request("ListVolumes", &list),
            "ListVolumes {max_entries: -1}"
        );
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let list = ListVolumesRequest {
            max_entries: 0,
            starting_token: "ü".repeat(LONGEST),
        };
        let shown = request("ListVolumes", &list);
        assert!(shown.len() < LONGEST + 20 && shown.contains('…'));
    }

    #[test]
    fn secrets_are_replaced_wherever_they_turn_up() {
        let secrets = Secrets::from_iter([("a".to_owned(), "hunter2".to_owned())]);
        assert!(holds_secret("bad token hunter2", &secrets));
        assert_eq!(
            without_secrets("bad token hunter2", &secrets),
            "bad token [secret]"
        );
    }
}
