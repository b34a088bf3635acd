//! Faults on purpose: a plugin that is slow, fails, loses answers or crashes, by RPC.
//!
//! Written `RPC:FAULT` or `RPC:FAULT:TIMES`; without times it happens every time. A crash is counted
//! over all runs of one state directory, so that a plugin that is started again does not crash for
//! ever. Pure: what happens is
//! `gate`'s.

use std::time::Duration;

use tonic::Code;

use super::abilities::RPCS;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The call fails with that code, and nothing is done.
    Fail(Code),
    /// The call begins so much later.
    Delay(Duration),
    /// Everything is done, and the answer is UNAVAILABLE.
    LoseReply,
    /// The call never ends, and nothing is done.
    Hang,
    /// The process ends before anything is done.
    Crash,
    /// The process ends when everything is done, before the answer.
    CrashAfter,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// As it was written.
    pub(super) text: String,
    /// The RPC's name, or `*`.
    pub(super) rpc: String,
    pub(super) harm: Harm,
    /// How often; `None` is always.
    pub(super) times: Option<u64>,
}

impl Fault {
    /// Reads one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (Some(rpc), Some(harm)) = (parts.next(), parts.next()) else {
            return Err(
                "write RPC:FAULT or RPC:FAULT:TIMES, as in NodeStageVolume:UNAVAILABLE:2"
                    .to_owned(),
            );
        };
        if rpc != "*" && !RPCS.contains(&rpc) {
            let near = crate::diagnostic::nearest(rpc, RPCS.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(format!("{rpc:?} is no RPC of CSI{near}"));
        }
        let times = match parts.next() {
            None => None,
            Some(times) => Some(
                times
                    .parse()
                    .ok()
                    .filter(|times| *times > 0)
                    .ok_or_else(|| format!("{times:?} is not how often: write a number from 1"))?,
            ),
        };
        if parts.next().is_some() {
            return Err("there is more than RPC:FAULT:TIMES".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            rpc: rpc.to_owned(),
            harm: parse_harm(harm)?,
            times,
        })
    }

    /// Whether it is for that RPC.
    pub(super) fn is_for(&self, rpc: &str) -> bool {
        self.rpc == "*" || self.rpc == rpc
    }
}

fn parse_harm(text: &str) -> Result<Harm, String> {
    if let Some(delay) = text.strip_prefix("delay=") {
        return duration(delay)
            .map(Harm::Delay)
            .ok_or_else(|| format!("{delay:?} is no duration: write 200ms or 5s"));
    }
    match text {
        "lose-reply" => return Ok(Harm::LoseReply),
        "hang" => return Ok(Harm::Hang),
        "crash" => return Ok(Harm::Crash),
        "crash-after" => return Ok(Harm::CrashAfter),
        _ => {}
    }
    let code = CODES.iter().find(|(name, _)| *name == text);
    code.map(|(_, code)| Harm::Fail(*code)).ok_or_else(|| {
        format!(
            "{text:?} is no fault: write a code ({}), delay=DURATION, lose-reply, hang, crash or crash-after",
            CODES.map(|(name, _)| name).join(", ")
        )
    })
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// gRPC's codes but OK, as CSI spells them.
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
    fn a_fault_is_an_rpc_a_harm_and_how_often() {
        for (text, harm, times) in [
            (
                "NodeStageVolume:UNAVAILABLE:2",
                Harm::Fail(Code::Unavailable),
                Some(2),
            ),
            (
                "*:delay=200ms",
                Harm::Delay(Duration::from_millis(200)),
                None,
            ),
            (
                "Probe:delay=5s:1",
                Harm::Delay(Duration::from_secs(5)),
                Some(1),
            ),
            ("CreateVolume:lose-reply:1", Harm::LoseReply, Some(1)),
            ("NodePublishVolume:hang", Harm::Hang, None),
            ("CreateSnapshot:crash:1", Harm::Crash, Some(1)),
            ("CreateSnapshot:crash-after:1", Harm::CrashAfter, Some(1)),
        ] {
            let fault = Fault::parse(text).unwrap();
            assert_eq!((fault.harm, fault.times), (harm, times), "{text}");
            assert!(
                fault.is_for("NodeStageVolume")
                    == (text.starts_with("NodeS") || text.starts_with('*'))
            );
        }
        for (text, said) in [
            ("", "write RPC:FAULT"),
            ("NodeStageVolume", "write RPC:FAULT"),
            ("NodeStageVolum:INTERNAL", "did you mean NodeStageVolume?"),
            ("Probe:OK", "is no fault"),
            ("Probe:delay=5", "200ms or 5s"),
            ("Probe:INTERNAL:0", "a number from 1"),
            ("Probe:INTERNAL:1:2", "there is more"),
        ] {
            let refused = Fault::parse(text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
