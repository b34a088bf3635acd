//! A step that fails shows how often it has failed and when it is tried again, without a record of each
//! attempt; a request of an operator tries it at once.

use std::time::Duration;

use nomad_csi_claims::claim::PluginSteps;
use nomad_csi_model::{AccessMode, AllocId, NamespacedId};
use nomad_csi_ports::Clock as _;
use nomad_csi_server::StepAttempts;
use nomad_csi_server::fake::FakeAgent;

use super::claims::{agent_with, assert_nothing_is_left, mount, wait_until_released};

const STEPS: PluginSteps = PluginSteps { attach: true, stage: true };

fn attempts(agent: &FakeAgent) -> Option<StepAttempts> {
    let (statuses, _) = agent.services.claims.statuses(|_| true);
    statuses.first().expect("one claim").attempts
}

async fn release(agent: &FakeAgent, key: &NamespacedId, wait: Duration) -> usize {
    let alloc = AllocId::new("a1");
    let claims = &agent.services.claims;
    let (left, _) = claims.release(key, &alloc, None, wait).await.unwrap();
    left
}

#[tokio::test(start_paused = true)]
async fn attempts_are_visible_cost_no_record_and_can_be_hurried() {
    let agent = agent_with(STEPS, AccessMode::SingleNodeWriter).await;
    let claims = &agent.services.claims;
    let claimed = claims.claim(&mount("a1"), Duration::from_secs(60)).await;
    assert!(claimed.unwrap().claim.is_some());
    assert_eq!(attempts(&agent), None, "nothing has failed");

    agent.observe(false).await;
    let key = FakeAgent::key("db");
    assert_eq!(release(&agent, &key, Duration::from_secs(10)).await, 1);
    let (first, index) = (attempts(&agent).expect("attempts"), agent.cell.index());
    assert!(first.failed >= 3, "{first:?}");
    let pause = first.next_at - agent.clock.now();
    assert!((1..=60_000_000_000).contains(&pause), "{pause} ns");

    assert_eq!(release(&agent, &key, Duration::from_millis(1)).await, 1);
    let hurried = attempts(&agent).expect("attempts");
    assert_eq!(hurried.failed, first.failed + 1, "tried at once");
    assert_eq!(release(&agent, &key, Duration::from_secs(300)).await, 1);
    assert!(attempts(&agent).expect("attempts").failed > hurried.failed + 2);
    assert_eq!(agent.cell.index(), index, "no attempt is recorded");

    agent.observe(true).await;
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, "");
}
