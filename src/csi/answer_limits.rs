//! The limits of what a plugin answers.
//!
//! The specification limits most fields to 128 bytes and maps to 4 KiB; many plugins exceed that a little, and one that
//! exceeds it a thousandfold is broken. A text for people is cut. An answer whose other fields are too long is refused, as is
//! a list of too many entries, before anything of it is stored.

use nomad_csi_model::boundary_before;
use nomad_csi_proto::{MessageTexts, TextKind};

/// The longest text for people, in bytes.
pub(super) const SHOWN_BYTES: usize = 4 << 10;
/// The longest ID, path or token of a list.
const ADDRESS_BYTES: usize = 4 << 10;
/// The longest value of a context.
const CONTEXT_BYTES: usize = 64 << 10;
/// The longest name of a plugin, and its longest version (CSI, "Size Limits").
pub(super) const NAME_BYTES: usize = 128;
/// The longest ID of a node (CSI, NodeGetInfo).
pub(super) const NODE_ID_BYTES: usize = 256;
/// The most entries of one answer.
pub(super) const LIST_ENTRIES: usize = 100_000;

/// Cuts what is only shown.
///
/// # Errors
/// Returns what is too long.
pub(super) fn limit(answer: &mut impl MessageTexts) -> Result<(), String> {
    let mut problem = Ok(());
    answer.visit(&mut |kind, text| {
        let max_bytes = match kind {
            TextKind::Shown => {
                cut(text, SHOWN_BYTES);
                return;
            }
            TextKind::Address => ADDRESS_BYTES,
            TextKind::Context | TextKind::Sealed | TextKind::Secret => CONTEXT_BYTES,
        };
        if text.len() > max_bytes {
            problem = Err(format!(
                "a field has {} bytes, and at most {max_bytes} are accepted",
                text.len()
            ));
        }
    });
    problem
}

/// Cuts a text for people.
pub(super) fn cut(text: &mut String, max_bytes: usize) {
    const MARK: char = '\u{2026}';
    if text.len() > max_bytes {
        text.truncate(boundary_before(text, max_bytes - MARK.len_utf8()));
        text.push(MARK);
    }
}

/// Checks the number of entries of one answer.
///
/// # Errors
/// Returns how many there are.
pub(super) fn limit_entries(count: usize) -> Result<(), String> {
    match count <= LIST_ENTRIES {
        true => Ok(()),
        false => Err(format!(
            "the list has {count} entries in one answer, and at most {LIST_ENTRIES} are accepted"
        )),
    }
}

#[cfg(test)]
mod tests {
    use nomad_csi_proto as proto;

    use super::*;

    #[test]
    fn a_long_message_is_cut_and_a_long_id_is_refused() {
        let mut health = proto::VolumeHealth {
            volume_id: "vol-1".to_owned(),
            health_statuses: vec![proto::volume_health::VolumeHealthEntry {
                message: "ä".repeat(SHOWN_BYTES),
                ..Default::default()
            }],
        };
        assert_eq!(limit(&mut health), Ok(()));
        let message = &health.health_statuses[0].message;
        assert!(message.len() <= SHOWN_BYTES && message.ends_with("ä\u{2026}"));
        health.volume_id = "v".repeat(ADDRESS_BYTES + 1);
        let problem = limit(&mut health).unwrap_err();
        assert_eq!(problem, "a field has 4097 bytes, and at most 4096 are accepted");
        assert!(limit_entries(LIST_ENTRIES).is_ok() && limit_entries(LIST_ENTRIES + 1).is_err());
    }
}
