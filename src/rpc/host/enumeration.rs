//! The values of enumerations, as messages have them.
//!
//! A value of a newer version is not known, and its message is malformed. Zero is no value: it would be what an absent field has.

use super::field::Malformed;
use super::messages;
use nomad_csi_model::VolumeStatusKind;
use nomad_csi_model::retry::Verdict;
use nomad_csi_ports::{Delivery, HostOperation, Rpc, StatusCode, SweepOutcome};

/// Implements both directions for an enumeration whose variants have the same names as those of the message.
macro_rules! same_names {
    ($to:ident $from:ident $own:ident $name:literal: $($variant:ident)*) => {
        pub(super) const fn $to(value: $own) -> i32 {
            let value = match value {
                $($own::$variant => messages::$own::$variant,)*
            };
            value as i32
        }

        pub(super) fn $from(number: i32) -> Result<$own, Malformed> {
            match messages::$own::try_from(number) {
                $(Ok(messages::$own::$variant) => Ok($own::$variant),)*
                Ok(messages::$own::Unspecified) | Err(_) => Err(Malformed($name)),
            }
        }
    };
}

same_names! { operation from_operation HostOperation "operation":
    Stage Publish Unpublish Unstage ExpandOnNode Sweep Attach Detach Delete Expand Modify Validate Snapshot Create
}

same_names! { verdict from_verdict Verdict "verdict":
    AlreadyDone Retry RetryBriefly RetryUnknownOutcome RetryLater FailedUnknownOutcome Permanent
}

same_names! { delivery from_delivery Delivery "delivery": NotSent Unanswered Answered }

same_names! { sweep from_sweep SweepOutcome "sweep": NothingLeft UndidSomething }

pub(super) fn from_rpc(name: &str) -> Result<Rpc, Malformed> {
    let known = Rpc::ALL.into_iter().find(|rpc| rpc.as_str() == name);
    known.ok_or(Malformed("rpc"))
}

pub(super) const fn code(code: StatusCode) -> i32 {
    nomad_csi_csi::status::to_tonic(code) as i32
}

pub(super) fn from_code(number: i32) -> Result<StatusCode, Malformed> {
    let known = StatusCode::ALL.into_iter().find(|known| code(*known) == number);
    known.ok_or(Malformed("code"))
}

pub(super) const fn health_kind(kind: VolumeStatusKind) -> messages::volume_status::Kind {
    use messages::VolumeStatusKind as Known;
    use messages::volume_status::Kind;
    let known = match kind {
        VolumeStatusKind::Degraded => Known::Degraded,
        VolumeStatusKind::Inaccessible => Known::Inaccessible,
        VolumeStatusKind::DataLoss => Known::DataLoss,
        VolumeStatusKind::Abnormal => Known::Abnormal,
        VolumeStatusKind::Unknown(number) => return Kind::Unknown(number),
    };
    Kind::Known(known as i32)
}

pub(super) fn from_health_kind(
    kind: Option<messages::volume_status::Kind>,
) -> Result<VolumeStatusKind, Malformed> {
    use messages::VolumeStatusKind as Known;
    use messages::volume_status::Kind;
    let number = match kind {
        Some(Kind::Unknown(number)) => return Ok(VolumeStatusKind::Unknown(number)),
        Some(Kind::Known(number)) => number,
        None => return Err(Malformed("kind")),
    };
    match Known::try_from(number) {
        Ok(Known::Degraded) => Ok(VolumeStatusKind::Degraded),
        Ok(Known::Inaccessible) => Ok(VolumeStatusKind::Inaccessible),
        Ok(Known::DataLoss) => Ok(VolumeStatusKind::DataLoss),
        Ok(Known::Abnormal) => Ok(VolumeStatusKind::Abnormal),
        Ok(Known::Unspecified) | Err(_) => Err(Malformed("kind")),
    }
}
