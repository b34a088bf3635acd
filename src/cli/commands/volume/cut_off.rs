//! The approval that cuts off the tasks of an allocation or of a node: `cuts-off:ID`.

use crate::cli::change_options::cut_off;
use nomad_csi_model::AllocId;
use nomad_csi_plan::CUTS_OFF;

/// Parses the approval, which names the allocation with its full ID.
///
/// # Errors
/// If the text is another approval, or names nothing.
pub(super) fn cuts_off(text: &str) -> Result<AllocId, String> {
    let id = cut_off(text).ok_or_else(|| {
        format!(
            "the only approval of this command is `{CUTS_OFF}:` and the full ID of the allocation"
        )
    })?;
    Ok(AllocId::new(id))
}

/// Parses the approval, which names a node or an allocation with its full ID.
///
/// # Errors
/// If the text is another approval, or names nothing.
pub(super) fn cuts_off_id(text: &str) -> Result<String, String> {
    let id = cut_off(text).ok_or_else(|| {
        format!(
            "the only approval of this command is `{CUTS_OFF}:` and the full ID of a node or an allocation"
        )
    })?;
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_approval_of_a_named_allocation_is_one() {
        assert_eq!(cuts_off("cuts-off:a1"), Ok(AllocId::new("a1")));
        assert_eq!(cuts_off_id("cuts-off:n1"), Ok("n1".to_owned()));
        for text in ["cuts-off:", "cuts-off", "destroys:a1", "a1", ":a1", ""] {
            assert!(cuts_off(text).is_err(), "{text}");
            assert!(cuts_off_id(text).is_err(), "{text}");
        }
    }
}
