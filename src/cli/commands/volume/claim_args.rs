//! Arguments of `volume claims`, `volume claim` and `volume release`.

use clap::Args;

use super::cut_off::cuts_off;
use crate::cli::args::{OutputArgs, WatchArgs, one_of};
use crate::cli::durations::TimeSpan;
use crate::cli::error::CliError;
use nomad_csi_client::reconcile::workflow::LONGEST_CLAIM_WAIT;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AccessMode, AllocId, AttachmentMode};

/// Arguments of `volume claims`.
#[derive(Args, Debug)]
pub(crate) struct ClaimsArgs {
    /// Exact ID of a volume [default: all volumes of the namespace]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// Arguments of `volume claim`.
#[derive(Args, Debug)]
pub(crate) struct ClaimArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Full ID of the allocation that uses the volume
    #[arg(long, value_name = "ID")]
    pub alloc: String,
    /// Name of the node, its ID, or the start of its ID [default: the node of the allocation, or the only node]
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// Name by which the allocation knows the volume [default: the ID of the volume]
    #[arg(long, value_name = "NAME")]
    pub alias: Option<String>,
    /// Mount the volume so that the allocation cannot write
    #[arg(long)]
    pub read_only: bool,
    /// Access mode [default: the one in use, or the volume's first that fits]
    #[arg(long, value_name = "MODE", value_parser = one_of(AccessMode::ALL, AccessMode::as_str))]
    pub access_mode: Option<AccessMode>,
    /// Attachment mode [default: the one in use, or the volume's first that fits]
    #[arg(long, value_name = "MODE", value_parser = one_of(AttachmentMode::ALL, AttachmentMode::as_str))]
    pub attachment_mode: Option<AttachmentMode>,
    /// Longest time to wait until the volume is published, at most 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = claim_wait)]
    pub wait: TimeSpan,
}

/// Arguments of `volume release`.
#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Full ID of the allocation that holds the volume
    #[arg(long, value_name = "ID")]
    pub alloc: String,
    /// Release only the claim of this name [default: all claims of the allocation]
    #[arg(long, value_name = "NAME")]
    pub alias: Option<String>,
    /// Kill the allocation's tasks first, which may lose data
    ///
    /// A volume is not released while tasks of the allocation may run. To cut them off, name the allocation
    /// again, with its full ID. No other option approves it. The node kills the tasks that use the volume at
    /// once, and the volume is released when none of them is left. The allocation fails.
    #[arg(long, value_name = "cuts-off:ID", value_parser = cuts_off)]
    pub approve: Option<AllocId>,
    /// Longest time to wait until the volume is released, at most 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = claim_wait)]
    pub wait: TimeSpan,
}

impl ReleaseArgs {
    /// Returns whether the tasks of the allocation may be cut off from the volume.
    ///
    /// # Errors
    /// If the approval is for another allocation.
    pub(super) fn cuts_off(&self) -> Result<bool, CliError> {
        match &self.approve {
            None => Ok(false),
            Some(approved) if approved.as_str() == self.alloc => Ok(true),
            Some(approved) => {
                let message = format!(
                    "cannot approve risk `cuts-off` for allocation `{approved}`: the command releases allocation `{}`",
                    self.alloc
                );
                let help = format!("remove `--approve cuts-off:{approved}`");
                Err(Diagnostic::error(Code::CliInvalidValue, message).help(help).into())
            }
        }
    }
}

fn claim_wait(text: &str) -> Result<TimeSpan, String> {
    let wait: TimeSpan = text.parse()?;
    if wait.0 > LONGEST_CLAIM_WAIT {
        return Err("the longest wait is 10m".to_owned());
    }
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_at_most_ten_minutes() {
        for (text, is_valid) in [("0s", true), ("10m", true), ("10m1s", false), ("x", false)] {
            assert_eq!(claim_wait(text).is_ok(), is_valid, "{text}");
        }
    }
}
