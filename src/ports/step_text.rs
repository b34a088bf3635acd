//! Nomad's texts for a failed step of a claim: attach, stage, publish, and what undoes them.
//!
//! Nomad's clients match on these texts (`csi/client.go`), so they are its own, word for word.

use super::plugin::{PluginError, Rpc, StatusCode};
use nomad_csi_model::ExternalId;

/// The subject of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepSubject<'a> {
    /// The volume.
    pub volume: &'a ExternalId,
    /// The plugin's ID of the node for a controller call, the staging or target path for a node call.
    pub place: &'a str,
}

/// Returns the text of Nomad's client for a failed step.
pub fn nomad_step_text(error: &PluginError, subject: StepSubject<'_>) -> String {
    let code = error.code.as_str();
    let status = format!("rpc error: code = {code} desc = {}", error.message);
    match translation(error.rpc, error.code, subject) {
        Some(translation) => format!("{translation}: {status}"),
        None => status,
    }
}

fn translation(rpc: Rpc, code: StatusCode, subject: StepSubject<'_>) -> Option<String> {
    match rpc {
        Rpc::ControllerPublishVolume => attach(code, subject),
        Rpc::ControllerUnpublishVolume => {
            (code == StatusCode::Internal).then(|| internal("controller"))
        }
        Rpc::NodeStageVolume => place(code, subject, "staged to", "incompatible capabilities for"),
        Rpc::NodePublishVolume => place(
            code,
            subject,
            "published at target path",
            "capabilities or a read_only setting incompatible with",
        ),
        Rpc::NodeExpandVolume => expand(code, subject),
        Rpc::NodeUnstageVolume | Rpc::NodeUnpublishVolume => {
            (code == StatusCode::Internal).then(|| internal("node"))
        }
        _ => None,
    }
}

fn internal(service: &str) -> String {
    format!(
        "{service} plugin returned an internal error, check the plugin allocation logs for more information"
    )
}

fn attach(code: StatusCode, StepSubject { volume, place }: StepSubject<'_>) -> Option<String> {
    Some(match code {
        StatusCode::NotFound => {
            format!("volume \"{volume}\" or node \"{place}\" could not be found")
        }
        StatusCode::AlreadyExists => format!(
            "volume \"{volume}\" is already published at node \"{place}\" but with capabilities or a read_only setting incompatible with this request"
        ),
        StatusCode::ResourceExhausted => {
            format!("node \"{place}\" has reached the maximum allowable number of attached volumes")
        }
        StatusCode::FailedPrecondition => format!(
            "volume \"{volume}\" is already published on another node and does not have MULTI_NODE volume capability"
        ),
        StatusCode::Internal => internal("controller"),
        _ => return None,
    })
}

fn place(
    code: StatusCode,
    StepSubject { volume, place }: StepSubject<'_>,
    done: &str,
    wrong: &str,
) -> Option<String> {
    Some(match code {
        StatusCode::NotFound => format!("volume \"{volume}\" could not be found"),
        StatusCode::AlreadyExists => {
            format!(
                "volume \"{volume}\" is already {done} \"{place}\" but with {wrong} this request"
            )
        }
        StatusCode::FailedPrecondition => {
            format!("volume \"{volume}\" does not have MULTI_NODE volume capability")
        }
        StatusCode::Internal => internal("node"),
        _ => return None,
    })
}

fn expand(code: StatusCode, StepSubject { volume, .. }: StepSubject<'_>) -> Option<String> {
    Some(match code {
        StatusCode::InvalidArgument => {
            format!("requested capabilities not compatible with volume \"{volume}\"")
        }
        StatusCode::OutOfRange => format!("unsupported capacity_range for volume \"{volume}\""),
        StatusCode::FailedPrecondition => {
            format!("volume \"{volume}\" cannot be expanded while in use")
        }
        StatusCode::Internal => internal("node"),
        _ => "node plugin returned an error".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Delivery;
    use crate::verdict::verdict_of;

    #[test]
    fn a_failed_step_has_nomads_text() {
        use StatusCode::{
            AlreadyExists, FailedPrecondition, Internal, InvalidArgument, NotFound, OutOfRange,
            ResourceExhausted, Unavailable,
        };
        const CONTROLLER: &str = "controller plugin returned an internal error, check the plugin \
                                  allocation logs for more information: ";
        const NODE: &str = "node plugin returned an internal error, check the plugin allocation \
                            logs for more information: ";
        for (rpc, code, expected) in [
            (
                Rpc::ControllerPublishVolume,
                NotFound,
                "volume \"v\" or node \"p\" could not be found: ",
            ),
            (
                Rpc::ControllerPublishVolume,
                AlreadyExists,
                "volume \"v\" is already published at node \"p\" but with capabilities or a \
                 read_only setting incompatible with this request: ",
            ),
            (
                Rpc::ControllerPublishVolume,
                ResourceExhausted,
                "node \"p\" has reached the maximum allowable number of attached volumes: ",
            ),
            (
                Rpc::ControllerPublishVolume,
                FailedPrecondition,
                "volume \"v\" is already published on another node and does not have MULTI_NODE \
                 volume capability: ",
            ),
            (Rpc::ControllerPublishVolume, Internal, CONTROLLER),
            (Rpc::ControllerPublishVolume, Unavailable, ""),
            (Rpc::ControllerUnpublishVolume, Internal, CONTROLLER),
            (Rpc::ControllerUnpublishVolume, FailedPrecondition, ""),
            (
                Rpc::NodeStageVolume,
                AlreadyExists,
                "volume \"v\" is already staged to \"p\" but with incompatible capabilities for \
                 this request: ",
            ),
            (
                Rpc::NodePublishVolume,
                AlreadyExists,
                "volume \"v\" is already published at target path \"p\" but with capabilities or \
                 a read_only setting incompatible with this request: ",
            ),
            (
                Rpc::NodePublishVolume,
                FailedPrecondition,
                "volume \"v\" does not have MULTI_NODE volume capability: ",
            ),
            (Rpc::NodeStageVolume, NotFound, "volume \"v\" could not be found: "),
            (Rpc::NodeUnstageVolume, Internal, NODE),
            (Rpc::NodeUnpublishVolume, Internal, NODE),
            (
                Rpc::NodeExpandVolume,
                InvalidArgument,
                "requested capabilities not compatible with volume \"v\": ",
            ),
            (Rpc::NodeExpandVolume, OutOfRange, "unsupported capacity_range for volume \"v\": "),
            (
                Rpc::NodeExpandVolume,
                FailedPrecondition,
                "volume \"v\" cannot be expanded while in use: ",
            ),
            (Rpc::NodeExpandVolume, Internal, NODE),
            (Rpc::NodeExpandVolume, Unavailable, "node plugin returned an error: "),
        ] {
            let error = PluginError {
                rpc,
                code,
                verdict: verdict_of(rpc, code),
                message: "why".to_owned(),
                delivery: Delivery::Answered,
            };
            let volume = ExternalId::new("v");
            let subject = StepSubject { volume: &volume, place: "p" };
            let status = format!("rpc error: code = {} desc = why", code.as_str());
            assert_eq!(nomad_step_text(&error, subject), format!("{expected}{status}"));
        }
    }
}
