//! The ledger in variables: two writers, lost answers, locks, servers that are too old, tokens that
//! may not.

use nomad_csi::diagnostic::Code;
use nomad_csi::model::{Namespace, NamespacedId, Secrets, VolumeId};
use nomad_csi::nomad::NomadLedger;
use nomad_csi::plan::{Actor, LedgerKey, LedgerSet, Ownership, SetName, StoredSet};
use nomad_csi::ports::{Ledger as _, LedgerError, LedgerFailure, LockHolder};

use super::client_requests::request;
use crate::support::http_server::{Server, json, text};
use crate::support::variables::{Fault, Variables};

fn name() -> SetName {
    SetName::parse("web").expect("it is a name")
}

fn holder(user: &str) -> LockHolder {
    LockHolder {
        by: Actor {
            user: user.into(),
            host: "build-7".into(),
            process: 7,
            command: "apply".into(),
        },
        since: 5,
    }
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn empty() -> LedgerSet {
    LedgerSet::new(name(), LedgerKey::new([3; 32]))
}

fn owning(ids: std::ops::Range<u32>) -> LedgerSet {
    let mut set = empty();
    for id in ids {
        set.own(key(&format!("volume-{id}")), Ownership::default());
    }
    set
}

async fn serve(variables: &Variables) -> (Server, NomadLedger) {
    let shared = variables.clone();
    let server = Server::start(move |seen, _| shared.serve(seen)).await;
    let ledger = server.client().ledger(Namespace::default());
    (server, ledger)
}

async fn save(
    ledger: &NomadLedger,
    set: &LedgerSet,
    stored: &mut StoredSet,
    save: &str,
) -> Result<(), LedgerError> {
    let changes = set.changes(stored, save).expect("it fits");
    ledger.write(&name(), stored, &changes).await
}

async fn read(ledger: &NomadLedger) -> (StoredSet, LedgerSet) {
    let stored = ledger.read(&name()).await.expect("it reads");
    let set = LedgerSet::read(name(), &stored, LedgerKey::new([9; 32])).expect("it is ours");
    (stored, set)
}

#[tokio::test]
async fn a_set_of_many_shards_is_read_back_and_shrinks_again() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    save(&ledger, &owning(0..1_000), &mut stored, "1")
        .await
        .expect("it writes");
    let (read_back, set) = read(&ledger).await;
    assert_eq!((&read_back, &set), (&stored, &owning(0..1_000)));
    assert!(stored.shards.len() > 3, "{}", stored.shards.len());
    save(&ledger, &owning(0..5), &mut stored, "2")
        .await
        .expect("it writes");
    assert_eq!(stored.shards.len(), 2);
    assert_eq!(read(&ledger).await, (stored, owning(0..5)));
    let sets = ledger.sets().await.expect("it lists");
    assert_eq!(sets.into_iter().collect::<Vec<_>>(), [name()]);
}

/// The list of variables and the head are two reads: a first writer may come between them.
#[tokio::test]
async fn a_set_that_is_first_written_while_it_is_read_is_read_again() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    save(&ledger, &owning(0..2), &mut stored, "1")
        .await
        .expect("it writes");
    let server = Server::start(move |seen, number| match number {
        0 => json("[]"),
        _ => variables.serve(seen),
    })
    .await;
    let ledger = server.client().ledger(Namespace::default());
    assert_eq!(read(&ledger).await, (stored, owning(0..2)));
}

#[tokio::test]
async fn of_two_writers_who_read_the_same_one_wins_and_the_other_has_written_nothing() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let (mut first, mut second) = (StoredSet::default(), StoredSet::default());
    save(&ledger, &owning(0..2), &mut first, "1")
        .await
        .expect("it writes");
    let refused = save(&ledger, &owning(5..9), &mut second, "2").await;
    assert_eq!(
        refused.expect_err("it is stale").failure,
        LedgerFailure::Conflict
    );
    assert_eq!(second, StoredSet::default());
    assert_eq!(read(&ledger).await, (first, owning(0..2)));
}

/// An answer that is lost is found out by reading; a request that is lost is sent again.
#[tokio::test]
async fn a_lost_answer_is_found_out_by_reading() {
    use Fault::{AnswerLost, RequestLost};
    for faults in [
        &[AnswerLost][..],
        &[RequestLost],
        &[RequestLost, AnswerLost, RequestLost],
    ] {
        let variables = Variables::new();
        let (server, ledger) = serve(&variables).await;
        variables.fail(faults);
        let mut stored = StoredSet::default();
        let saved = save(&ledger, &owning(0..2), &mut stored, "1").await;
        assert_eq!(saved, Ok(()), "{faults:?}: {:?}", server.seen());
        assert_eq!(read(&ledger).await, (stored.clone(), owning(0..2)));
        variables.fail(faults);
        let emptied = save(&ledger, &empty(), &mut stored, "2").await;
        assert_eq!(emptied, Ok(()), "{faults:?}");
        assert_eq!(read(&ledger).await, (stored, empty()));
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_again_and_again_is_said_to_be_unknown() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    variables.fail(&[Fault::RequestLost; 9]);
    let refused = save(&ledger, &owning(0..2), &mut StoredSet::default(), "1").await;
    let refused = refused.expect_err("nobody knows");
    assert_eq!(refused.failure, LedgerFailure::OutcomeUnknown);
}

#[tokio::test]
async fn a_locked_set_says_by_whom_and_a_lock_that_ran_out_is_lost() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let ada = ledger
        .lock(&name(), &holder("ada"))
        .await
        .expect("it is free");
    ada.renew().await.expect("it is ours");
    let Err(refused) = ledger.lock(&name(), &holder("bo")).await else {
        panic!("two hold it");
    };
    assert_eq!(
        refused.failure,
        LedgerFailure::Held(Some(Box::new(holder("ada"))))
    );
    variables.expire_locks();
    let bo = ledger
        .lock(&name(), &holder("bo"))
        .await
        .expect("it ran out");
    let lost = ada.renew().await.expect_err("it is bo's");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    let lost = ada.release().await.expect_err("it is bo's");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    bo.release().await.expect("it is ours");
    let again = ledger.lock(&name(), &holder("ada")).await;
    drop(again.expect("it is free"));
    assert!(ledger.read(&name()).await.expect("it reads").is_empty());
}

/// Whoever's acquire was carried out and not answered does not wait for himself.
#[tokio::test]
async fn a_lock_whose_answer_is_lost_is_taken_and_given_back_all_the_same() {
    use Fault::{AnswerLost, RequestLost};
    for faults in [&[AnswerLost][..], &[RequestLost, AnswerLost]] {
        let variables = Variables::new();
        let (_server, ledger) = serve(&variables).await;
        variables.fail(faults);
        let ada = ledger.lock(&name(), &holder("ada")).await;
        let ada = ada.expect("it is free");
        ada.renew().await.expect("it is ours");
        let Err(refused) = ledger.lock(&name(), &holder("bo")).await else {
            panic!("two hold it");
        };
        assert!(matches!(refused.failure, LedgerFailure::Held(Some(_))));
        variables.fail(faults);
        assert_eq!(ada.release().await, Ok(()), "{faults:?}");
        let bo = ledger.lock(&name(), &holder("bo")).await;
        drop(bo.expect("it is free"));
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_told_with_what_to_use_instead() {
    let before_1_4 = Server::always(text(404, "")).await;
    let ledger = before_1_4.client().ledger(Namespace::default());
    let refused = ledger.read(&name()).await.expect_err("it has none");
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert_eq!(
        refused.message,
        "the ledger cannot be kept in Nomad's variables: the server has no variables, which Nomad has since 1.4"
    );
    let help = refused.diagnostic().help.join(" ");
    assert!(
        help.contains("--ledger file:PATH") && help.contains("--ledger none"),
        "{help}"
    );

    let variables = Variables::new().without_locks();
    let (_server, ledger) = serve(&variables).await;
    let Err(refused) = ledger.lock(&name(), &holder("ada")).await else {
        panic!("nothing was locked");
    };
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    // Such a server takes the variable all the same, as Nomad 1.6.10 did.
    assert_eq!(variables.texts(), [""; 0], "nothing is left there");
}

#[tokio::test]
async fn a_token_that_may_not_is_told_which_policy_it_needs() {
    let server = Server::always(text(403, "Permission denied")).await;
    let ledger = server.client().ledger(Namespace::new("ops"));
    let refused = ledger.read(&name()).await.expect_err("it may not");
    assert_eq!(
        (refused.failure, refused.code),
        (LedgerFailure::Forbidden, Code::ApiForbidden)
    );
    assert!(
        refused.help[0].contains(r#"namespace "ops" { variables { path "nomad-csi/sets/*""#),
        "{:?}",
        refused.help
    );

    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    save(&ledger, &owning(0..2), &mut StoredSet::default(), "1")
        .await
        .expect("it writes");
    let (_server, ledger) = serve(&variables.clone().without_list()).await;
    let refused = ledger
        .read(&name())
        .await
        .expect_err("it would see nothing");
    assert_eq!(refused.failure, LedgerFailure::Forbidden);
}

#[tokio::test]
async fn no_secret_and_no_mount_flag_is_in_any_variable() {
    let variables = Variables::new();
    let (server, ledger) = serve(&variables).await;
    let mut wanted = request("db0");
    wanted.secrets = Some(Secrets::from_iter([("token", "canary-secret-5c1d")]));
    wanted.mount_options = Some(nomad_csi::model::MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec!["password=canary-flag-9f3e".into()],
    });
    let mut set = empty();
    set.record_applied(&wanted);
    save(&ledger, &set, &mut StoredSet::default(), "1")
        .await
        .expect("it writes");
    let sent = server.seen().into_iter().map(|seen| seen.body);
    for text in sent.chain(variables.texts()) {
        assert!(!text.contains("canary"), "{text}");
    }
}
