//! Conditions of lists and of writes.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Answer, agent, create, get, send_line, volume_body};
use crate::fake::FakeAgent;
use nomad_csi_testing::FakeClock;
use nomad_csi_wire::{INDEX, NEXT_TOKEN};

async fn claim(agent: &FakeAgent, id: &str, alloc: &str) -> Answer {
    let body = json!({"AllocID": alloc, "NodeID": FakeAgent::NODE}).to_string();
    let answer = send_line(agent, &format!("PUT /v1/volume/csi/{id}/claim"), &body).await;
    assert!(answer.status < 300, "{}", answer.text());
    answer
}

async fn release(agent: &FakeAgent, id: &str, alloc: &str) -> Answer {
    let line = format!("DELETE /v1/volume/csi/{id}/claim?alloc={alloc}");
    let answer = send_line(agent, &line, "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

async fn read(agent: &FakeAgent, id: &str) -> Value {
    get(agent, &format!("/v1/volume/csi/{id}")).await.json()
}

async fn read_in_list(agent: &FakeAgent) -> Value {
    get(agent, "/v1/volumes?type=csi").await.json()[0].clone()
}

fn number(volume: &Value, field: &str) -> u64 {
    volume[field].as_u64().unwrap()
}

/// The IDs of the listed volumes, or the text of the error.
fn ids(answer: &Answer) -> String {
    if answer.status != 200 {
        return answer.text().to_owned();
    }
    let list = answer.json();
    let ids = list.as_array().unwrap().iter();
    let ids: Vec<_> = ids.map(|item| item["ID"].as_str().unwrap_or("?")).collect();
    ids.join(" ")
}

fn encoded(expression: &str) -> String {
    url::form_urlencoded::byte_serialize(expression.as_bytes()).collect()
}

async fn filtered(agent: &FakeAgent, list: &str, expression: &str) -> String {
    let uri = format!("/v1/{list}?type=csi&filter={}", encoded(expression));
    ids(&get(agent, &uri).await)
}

/// W08, W35: the steps of a claim move the index and the time that clients see, with the server's time,
/// and not the index of the specification.
#[tokio::test(start_paused = true)]
async fn claims_do_not_change_the_index_of_the_specification() {
    let agent = agent().await;
    agent.record_start().await;
    create(&agent, "db").await;
    let before = read(&agent, "db").await;
    assert_eq!(number(&before, "SpecIndex"), number(&before, "ModifyIndex"));
    let claimed = claim(&agent, "db", "a1").await.json();
    assert!(claimed["GrantedAt"].as_i64().unwrap() >= FakeClock::START);
    let listed = read_in_list(&agent).await;
    for volume in [read(&agent, "db").await, listed] {
        assert_eq!(number(&volume, "SpecIndex"), number(&before, "SpecIndex"));
        assert!(number(&volume, "ModifyIndex") > number(&before, "ModifyIndex"));
        assert!(volume["ModifyTime"].as_i64().unwrap() >= FakeClock::START);
    }
}

/// W08: a write with `cas` changes the specification that its client read, or nothing.
#[tokio::test(start_paused = true)]
async fn a_conditional_write_finds_every_other_change() {
    let agent = agent().await;
    agent.record_start().await;
    create(&agent, "db").await;
    let at = number(&read(&agent, "db").await, "SpecIndex");
    claim(&agent, "db", "a1").await;
    release(&agent, "db", "a1").await;
    let register = |secret: &str, cas: u64| {
        let mut volume = volume_body("db");
        volume["Secrets"] = json!({"key": secret});
        let body = json!({"Volumes": [volume]}).to_string();
        (format!("PUT /v1/volume/csi/db?cas={cas}"), body)
    };
    // Both start from the same specification: the claim in between does not matter, the other does.
    let [(line, one), (_, other)] = ["one", "other"].map(|secret| register(secret, at));
    let (one, other) =
        tokio::join!(send_line(&agent, &line, &one), send_line(&agent, &line, &other));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text(), other.text());
    let now = number(&read(&agent, "db").await, "SpecIndex");
    let changed = format!(
        "cas error: the specification of volume `db` changed: it is at index {now}, and the request \
         expects index {at}"
    );
    let (new, body) = register("one", 0);
    let several = json!({"Volumes": [volume_body("a"), volume_body("b")]}).to_string();
    for (line, body, status, text) in [
        (line.as_str(), body.as_str(), 409, changed.as_str()),
        (&format!("DELETE /v1/volume/csi/db?cas={at}"), "", 409, &changed),
        (&format!("DELETE /v1/volume/csi/db/delete?cas={at}"), "", 409, &changed),
        (&new, &body, 409, &format!("cas error: volume `db` exists, at index {now}")),
        (
            "DELETE /v1/volume/csi/gone?cas=9",
            "",
            409,
            "cas error: volume `gone` does not exist; the request expects index 9",
        ),
        (
            "DELETE /v1/volume/csi/db?cas=x",
            "",
            400,
            "can not parse cas: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "PUT /v1/volume/csi/a?cas=0",
            &several,
            400,
            "`cas` is the index of one volume, and the request has several",
        ),
        (
            "PUT /v1/volume/csi/a/create?cas=0",
            &several,
            400,
            "a create does not support `cas`; register the volume instead",
        ),
        (&format!("DELETE /v1/volume/csi/db/delete?cas={now}"), "", 200, ""),
    ] {
        let answer = send_line(&agent, line, body).await;
        assert_eq!((answer.status, answer.text()), (status, text), "{line}");
    }
}

/// B97: a list by node has the volumes that allocations on the node claim, whatever else is asked, and
/// a claim ends the wait for it.
#[tokio::test(start_paused = true)]
async fn a_list_by_node_has_the_volumes_that_are_claimed_there() {
    let agent = agent().await;
    agent.record_start().await;
    for id in ["db", "web", "unused"] {
        create(&agent, id).await;
    }
    let node = FakeAgent::NODE;
    claim(&agent, "web", "a2").await;
    let by_node = format!("/v1/volumes?type=csi&node_id={node}");
    let answer = get(&agent, &by_node).await;
    assert_eq!(ids(&answer), "web");
    let watch = format!("{by_node}&index={}&wait=300s", answer.header(INDEX));
    let mut waiting = Box::pin(get(&agent, &watch));
    assert!(waiting.as_mut().now_or_never().is_none());
    claim(&agent, "db", "a1").await;
    let woken = timeout(Duration::from_secs(1), waiting).await;
    assert!(woken.is_ok(), "the claim did not end the wait");
    for (query, expected) in [
        (format!("&node_id={node}"), "db web"),
        (format!("&node_id={node}&prefix=w"), "web"),
        (format!("&node_id={node}&plugin_id=fake&namespace=*"), "db web"),
        (format!("&node_id={node}&plugin_id=other"), ""),
        (format!("&node_id={node}&namespace=other"), ""),
        (format!("&node_id={node}&filter=ID+%21%3D+db"), "web"),
        ("&node_id=another".to_owned(), ""),
    ] {
        let answer = get(&agent, &format!("/v1/volumes?type=csi{query}")).await;
        assert_eq!(ids(&answer), expected, "{query}");
    }
    release(&agent, "db", "a1").await;
    let answer = get(&agent, &format!("/v1/volumes?type=csi&node_id={node}")).await;
    assert_eq!(ids(&answer), "web");
}

/// An expression sees the fields of the volume's document, as in Nomad, and those of the list.
#[tokio::test(start_paused = true)]
async fn lists_take_filter_expressions() {
    let agent = agent().await;
    agent.record_start().await;
    for id in ["db-0", "db-1", "db-2", "web"] {
        create(&agent, id).await;
    }
    claim(&agent, "web", "a1").await;
    let unknown =
        "failed to read result page: `Nam` is not a field of a list item; did you mean `Name`?";
    for (list, expression, expected) in [
        ("volumes", r#"Name matches "^db""#, "db-0 db-1 db-2"),
        ("volumes", "PluginID == fake and not ID == web", "db-0 db-1 db-2"),
        ("volumes", "CurrentWriters == 1", "web"),
        ("volumes", "a1 in WriteAllocs", "web"),
        ("volumes", "CloneID is empty and Schedulable == true", "db-0 db-1 db-2 web"),
        ("volumes", "RequestedCapabilities is empty", ""),
        ("volumes", "NodeExpansionPending == true or SpecIndex == 0", ""),
        ("volumes", "Nam == x", unknown),
        ("plugins", "ID == fake and NodesHealthy == 1", "fake"),
        ("plugins", "NodesHealthy == 0", ""),
        ("volumes/claims", "AllocID == a1", "?"),
        ("volumes/claims", r#"State != "published""#, ""),
    ] {
        assert_eq!(filtered(&agent, list, expression).await, expected, "{expression}");
    }
    for list in ["volumes", "plugins", "volumes/claims"] {
        let text = filtered(&agent, list, "ID ==").await;
        assert!(text.ends_with("found the end"), "{list}: {text}");
    }
}

/// A page has as many volumes as were asked for, whatever lies between them.
#[tokio::test(start_paused = true)]
async fn pages_count_the_volumes_that_match() {
    let agent = agent().await;
    for number in 0..10 {
        create(&agent, &format!("v{number}")).await;
    }
    let expression = encoded("ID matches `[13579]$`");
    let (mut pages, mut token) = (vec![], String::new());
    loop {
        let uri = format!("/v1/volumes?type=csi&per_page=2&filter={expression}&next_token={token}");
        let answer = get(&agent, &uri).await;
        pages.push(ids(&answer));
        token = answer.header(NEXT_TOKEN).to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, ["v1 v3", "v5 v7", "v9"]);
}
