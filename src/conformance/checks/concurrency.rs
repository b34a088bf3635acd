//! Calls at once, and repeated after a broken connection (CSI sections "Concurrency" and "Timeouts").
//!
//! An orchestrator keeps at most one call in flight per volume, but may break that after a crash; the
//! plugin copes, or answers ABORTED to the second call. Whatever it answers, one name is one volume
//! in the end, and the same call repeated gives it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::expect;
use crate::conformance::made::Leaves;
use crate::conformance::report::Level;
use crate::csi::Failure;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::{CreateVolumeRequest, CreateVolumeResponse};
use crate::ports::StatusCode;

const NEEDS: &[Need] = &[Need::Can(ControllerRpc::CreateDeleteVolume)];
/// How many calls are sent at once.
const AT_ONCE: usize = 8;
/// How often a call is repeated that another one is in the way of, and the pause between two.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Concurrency,
        "concurrency/same-name",
        "The same volume asked for eight times at once is one volume",
        "Concurrency",
        NEEDS,
        Creates,
        same_name
    ),
    case!(
        Concurrency,
        "concurrency/other-names",
        "Eight volumes asked for at once are eight volumes",
        "Concurrency",
        NEEDS,
        Creates,
        other_names
    ),
    case!(
        Concurrency,
        "concurrency/delete",
        "The same volume deleted eight times at once is gone",
        "Concurrency",
        NEEDS,
        Creates,
        delete
    ),
    case!(
        Concurrency,
        "concurrency/cut-connection",
        "A creation whose connection breaks can be repeated, and gives one volume",
        "Timeouts",
        NEEDS,
        Creates,
        cut_connection
    ),
];

impl Check<'_> {
    /// Sends a call until nothing is in its way any more.
    ///
    /// # Errors
    /// If it is refused, or something is in its way for ever; that is a finding.
    pub(super) async fn persist_until<C: Leaves>(
        &mut self,
        request: C,
        because: &str,
    ) -> Result<C::Answer, Stop> {
        for _ in 1..ATTEMPTS {
            match self.call(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if expect::passes(&failure) => tokio::time::sleep(PAUSE).await,
                Err(_) => break,
            }
        }
        self.must(request, because).await
    }
}

fn ids(answers: &[Result<CreateVolumeResponse, Failure>]) -> BTreeSet<String> {
    let volumes = answers
        .iter()
        .flatten()
        .filter_map(|answer| answer.volume.as_ref());
    volumes.map(|volume| volume.volume_id.clone()).collect()
}

async fn same_name(check: &mut Check<'_>) -> Ended {
    let request = check.create_request();
    let answers = check.together(vec![request.clone(); AT_ONCE]).await;
    let rule = "OK, or ABORTED since the same volume is being created";
    coped(check, &answers, rule);
    let because = "nothing else creates the volume any more";
    let answer = check.persist_until(request, because).await?;
    one_volume(check, &answers, answer);
    Ok(())
}

fn coped<T>(check: &mut Check<'_>, answers: &[Result<T, Failure>], rule: &str) {
    let bad = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .find(|failure| failure.code() != Some(StatusCode::Aborted));
    if let Some(failure) = bad {
        check.find(Level::Must, rule, &failure.to_string());
    }
}

fn one_volume(
    check: &mut Check<'_>,
    answers: &[Result<CreateVolumeResponse, Failure>],
    last: CreateVolumeResponse,
) {
    let mut all = ids(answers);
    all.extend(last.volume.map(|volume| volume.volume_id));
    let rule = "one name never stands for two volumes";
    check.hold(all.len() == 1, rule, &format!("{all:?}"));
}

async fn other_names(check: &mut Check<'_>) -> Ended {
    let requests: Vec<CreateVolumeRequest> = (0..AT_ONCE).map(|_| check.create_request()).collect();
    let answers = check.together(requests).await;
    let rule = "OK: calls about different volumes do not hinder each other";
    for answer in &answers {
        if let Err(failure) = answer {
            check.find(Level::Must, rule, &failure.to_string());
        }
    }
    let all = ids(&answers);
    let succeeded = answers.iter().flatten().count();
    let rule = "every name stands for a volume of its own";
    check.hold(all.len() == succeeded, rule, &format!("{all:?}"));
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = check.delete_request(&volume.volume_id);
    let answers = check.together(vec![request.clone(); AT_ONCE]).await;
    let rule = "OK, or ABORTED since the same volume is being deleted";
    coped(check, &answers, rule);
    check.persist_until(request, "the volume is gone").await?;
    Ok(())
}

async fn cut_connection(check: &mut Check<'_>) -> Ended {
    for _ in 0..3 {
        let request = check.create_request();
        check.leave(request.clone()).await?;
        let because = "a call of unknown outcome is repeated, and continues what was begun";
        let first = check.persist_until(request.clone(), because).await?;
        let because = "the volume is as asked for";
        let second = check.persist_until(request, because).await?;
        one_volume(check, &[Ok(first)], second);
    }
    Ok(())
}
