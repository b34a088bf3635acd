//! Arguments of `volume claims`, `volume claim` and `volume release`.

use clap::Args;

use crate::cli::args::{OutputArgs, one_of};
use crate::cli::durations::TimeSpan;
use crate::model::{AccessMode, AttachmentMode};
use crate::reconcile::workflow::LONGEST_CLAIM_WAIT;

/// Arguments of `volume claims`.
#[derive(Args, Debug)]
pub(crate) struct ClaimsArgs {
    /// Exact ID of a volume [default: all volumes of the namespace]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
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
    /// Longest time to wait until the volume is released, at most 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = claim_wait)]
    pub wait: TimeSpan,
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
