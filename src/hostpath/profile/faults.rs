//! Simulated faults: RPCs that are slow, fail, lose their reply or crash the process.
//!
//! The syntax is `RPC:FAULT` or `RPC:FAULT:TIMES`. Without a number the fault occurs on every call.
//! Crashes are counted across runs with the same state directory, so that a restarted plugin does
//! not crash forever. `health:CONDITION` is a condition that the plugin reports although it does not
//! exist. This file only parses; [`FaultLayer`](super::super::services) injects.

use std::time::Duration;

use tonic::Code;

use super::capabilities::RPCS;
use crate::health::HealthFault;
use nomad_csi_model::GoDuration;

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The call fails with this code and does nothing.
    Fail(Code),
    /// The call starts after this delay.
    Delay(Duration),
    /// The call does its work and answers UNAVAILABLE.
    LoseReply,
    /// The call never returns and does nothing.
    Hang,
    /// The process aborts before the call does anything.
    Crash,
    /// The process aborts after the work, before the reply.
    CrashAfter,
}

/// One simulated fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The text of the option.
    pub(crate) text: String,
    /// The name of the RPC, or `*`.
    pub(crate) rpc: String,
    pub(crate) kind: FaultKind,
    /// How often the fault occurs; `None` is always.
    pub(crate) times: Option<u64>,
}

impl Fault {
    /// Parses `RPC:FAULT` or `RPC:FAULT:TIMES`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (Some(rpc), Some(kind)) = (parts.next(), parts.next()) else {
            return Err("use RPC:FAULT or RPC:FAULT:TIMES, such as NodeStageVolume:UNAVAILABLE:2"
                .to_owned());
        };
        if rpc != "*" && !RPCS.contains(&rpc) {
            let near = nomad_csi_model::diagnostic::closest_match(rpc, RPCS.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(format!("{rpc:?} is not an RPC of CSI{near}"));
        }
        let times = match parts.next() {
            None => None,
            Some(times) => {
                Some(times.parse().ok().filter(|times| *times > 0).ok_or_else(|| {
                    format!("{times:?} is not a number of times: use a number from 1")
                })?)
            }
        };
        if parts.next().is_some() {
            return Err("too many parts: use RPC:FAULT:TIMES".to_owned());
        }
        Ok(Self { text: text.to_owned(), rpc: rpc.to_owned(), kind: parse_kind(kind)?, times })
    }

    /// Returns whether the fault applies to this RPC.
    pub(crate) fn matches_rpc(&self, rpc: &str) -> bool {
        self.rpc == "*" || self.rpc == rpc
    }
}

/// Returns the text after `health:`.
pub(super) fn health_condition(text: &str) -> Option<&str> {
    text.strip_prefix("health:")
}

/// Parses the condition of `health:CONDITION`.
pub(super) fn parse_health(condition: &str) -> Result<HealthFault, String> {
    let known = HealthFault::NAMES.iter().find(|(name, _)| *name == condition);
    known.map(|(_, fault)| *fault).ok_or_else(|| {
        let names = HealthFault::NAMES.map(|(name, _)| name).join(", ");
        format!("{condition:?} is not a condition: use {names}")
    })
}

fn parse_kind(text: &str) -> Result<FaultKind, String> {
    if let Some(delay) = text.strip_prefix("delay=") {
        let duration = GoDuration::parse(delay).ok().and_then(GoDuration::to_std);
        return duration.map(FaultKind::Delay).ok_or_else(|| {
            format!("{delay:?} is not a duration: use a value such as 200ms or 5s")
        });
    }
    match text {
        "lose-reply" => return Ok(FaultKind::LoseReply),
        "hang" => return Ok(FaultKind::Hang),
        "crash" => return Ok(FaultKind::Crash),
        "crash-after" => return Ok(FaultKind::CrashAfter),
        _ => {}
    }
    let code = CODES.iter().find(|(name, _)| *name == text);
    code.map(|(_, code)| FaultKind::Fail(*code)).ok_or_else(|| {
        format!(
            "{text:?} is not a fault: use a code ({}), delay=DURATION, lose-reply, hang, crash or crash-after",
            CODES.map(|(name, _)| name).join(", ")
        )
    })
}

/// The gRPC status codes except OK, as CSI spells them.
const CODES: [(&str, Code); 16] = [
    ("CANCELLED", Code::Cancelled),
    ("UNKNOWN", Code::Unknown),
    ("INVALID_ARGUMENT", Code::InvalidArgument),
    ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
    ("NOT_FOUND", Code::NotFound),
    ("ALREADY_EXISTS", Code::AlreadyExists),
    ("PERMISSION_DENIED", Code::PermissionDenied),
    ("RESOURCE_EXHAUSTED", Code::ResourceExhausted),
    ("FAILED_PRECONDITION", Code::FailedPrecondition),
    ("ABORTED", Code::Aborted),
    ("OUT_OF_RANGE", Code::OutOfRange),
    ("UNIMPLEMENTED", Code::Unimplemented),
    ("INTERNAL", Code::Internal),
    ("UNAVAILABLE", Code::Unavailable),
    ("DATA_LOSS", Code::DataLoss),
    ("UNAUTHENTICATED", Code::Unauthenticated),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_an_rpc_a_kind_and_a_number_of_times() {
        for (text, kind, times) in [
            ("NodeStageVolume:UNAVAILABLE:2", FaultKind::Fail(Code::Unavailable), Some(2)),
            ("*:delay=200ms", FaultKind::Delay(Duration::from_millis(200)), None),
            ("Probe:delay=5s:1", FaultKind::Delay(Duration::from_secs(5)), Some(1)),
            ("Probe:delay=1m30s", FaultKind::Delay(Duration::from_secs(90)), None),
            ("CreateVolume:lose-reply:1", FaultKind::LoseReply, Some(1)),
            ("NodePublishVolume:hang", FaultKind::Hang, None),
            ("CreateSnapshot:crash:1", FaultKind::Crash, Some(1)),
            ("CreateSnapshot:crash-after:1", FaultKind::CrashAfter, Some(1)),
        ] {
            let fault = Fault::parse(text).unwrap();
            assert_eq!((fault.kind, fault.times), (kind, times), "{text}");
            assert!(
                fault.matches_rpc("NodeStageVolume")
                    == (text.starts_with("NodeS") || text.starts_with('*'))
            );
        }
        for (text, reason) in [
            ("", "use RPC:FAULT"),
            ("NodeStageVolume", "use RPC:FAULT"),
            ("NodeStageVolum:INTERNAL", "did you mean NodeStageVolume?"),
            ("Probe:OK", "is not a fault"),
            ("Probe:delay=5", "200ms or 5s"),
            ("Probe:delay=-5s", "200ms or 5s"),
            ("Probe:INTERNAL:0", "a number from 1"),
            ("Probe:INTERNAL:1:2", "too many parts"),
        ] {
            let refused = Fault::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
