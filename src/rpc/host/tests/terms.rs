//! A node serves the newest leader only (rule 11 of the claims machine).

use super::connection::Connection;
use super::request::{Call, Effect, Failure};
use super::samples::Random;
use super::scripted::ScriptedNode;
use nomad_csi_model::Term;
use nomad_csi_ports::{Delivery, HostError, TermGuard as _};

const OLD: Term = Term { epoch: 1, revision: 4 };
const NEW: Term = Term { epoch: 1, revision: 5 };

/// Every method: one that changes something, or whose answer a leader relies on, is refused and never made.
#[tokio::test]
async fn a_deposed_leader_is_refused_by_every_call_that_changes_something() {
    let mut refused = 0;
    for name in Call::NAMES {
        let node = ScriptedNode::new(0);
        let connection = Connection::to_scripted(&node).await;
        node.obey(NEW).unwrap();
        let call = Call::sample(name, &mut Random(3)).of_term(OLD);
        let outcome = call.clone().make(&connection.remote(OLD).connected()).await;
        let old_term = HostError::OldTerm { desired: OLD, newest: NEW };
        match call.effect() {
            Effect::Step | Effect::ReadForLeader => {
                assert_eq!(outcome, Err(Failure::Host(old_term)), "{name}");
            }
            Effect::Change => {
                let Err(Failure::Plugin(error)) = outcome else {
                    panic!("{name}: {outcome:?}");
                };
                assert_eq!(error.message, old_term.to_string(), "{name}");
                assert_eq!(error.delivery, Delivery::NotSent, "{name}");
                assert!(!error.verdict.may_have_taken_effect(), "{name}");
            }
            Effect::Read => {
                assert_eq!(node.recorded(), [call], "{name}");
                continue;
            }
        }
        assert_eq!(node.recorded(), [], "{name}");
        refused += 1;
    }
    assert_eq!(refused, 9 + 8, "the steps and their list, and the changes of a controller");
}

/// The first call of a new leader ends the rule of the one before, also if it is a call without an order.
#[tokio::test]
async fn every_call_that_changes_something_is_a_word_of_the_new_leader() {
    for name in Call::NAMES {
        let node = ScriptedNode::new(0);
        let connection = Connection::to_scripted(&node).await;
        let call = Call::sample(name, &mut Random(3)).of_term(NEW);
        let is_of_leader = call.effect() != Effect::Read;
        drop(call.make(&connection.remote(NEW).connected()).await);
        let expected = HostError::OldTerm { desired: OLD, newest: NEW };
        assert_eq!(node.obey(OLD).err(), is_of_leader.then_some(expected), "{name}");
    }
}
