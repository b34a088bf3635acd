use nomad_csi_ports::Clock as _;

use super::*;
use crate::fake::FakeAgent;
use nomad_csi_testing::PluginSettings;

async fn service() -> (FakeAgent, AclService) {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    let acl = agent.services.acl.clone();
    (agent, acl.with_settings(AclSettings { is_enabled: Some(true) }))
}

fn client(policies: &[&str]) -> NewToken {
    NewToken {
        name: "t".to_owned(),
        kind: TokenKind::Client(policies.iter().map(ToString::to_string).collect()),
        is_global: false,
        expiry: TokenExpiry::Never,
    }
}

fn policy(rules: &str) -> AclPolicyEntry {
    AclPolicyEntry { description: String::new(), rules: rules.to_owned() }
}

fn hash(secret: &str) -> SecretHash {
    SecretHash::of(secret.as_bytes())
}

fn rights(acl: &AclService, secret: &str) -> Rights {
    acl.rights(&acl.bearer(Some(&hash(secret))).unwrap())
}

const READS_NODES: &str = "node { policy = \"read\" }";

#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_or_goes_changes_the_rights_of_its_tokens() {
    let (_agent, acl) = service().await;
    let (token, secret) = acl.create_token(client(&["p", "gone"])).await.unwrap();
    assert!(!rights(&acl, &secret).reads_nodes(), "the policy does not exist yet");
    acl.write_policy("p", policy(READS_NODES)).await.unwrap();
    assert!(rights(&acl, &secret).reads_nodes());
    acl.write_policy("p", policy("agent { policy = \"read\" }")).await.unwrap();
    let changed = rights(&acl, &secret);
    assert!(!changed.reads_nodes() && changed.reads_agents());
    acl.delete_policy("p").await.unwrap();
    assert!(!rights(&acl, &secret).reads_agents());
    let AclKey::Token(accessor) = &token.key else { panic!("{token:?}") };
    let update = TokenUpdate { name: "n".to_owned(), kind: TokenKind::Management };
    acl.update_token(accessor, update).await.unwrap();
    assert!(rights(&acl, &secret).is_management(), "the secret stays");
    acl.delete_token(accessor).await.unwrap();
    assert_eq!(acl.bearer(Some(&hash(&secret))), Err(AclError::UnknownToken));
    for error in [
        acl.delete_token(accessor).await.unwrap_err(),
        acl.update_token(
            accessor,
            TokenUpdate { name: String::new(), kind: TokenKind::Management },
        )
        .await
        .unwrap_err(),
    ] {
        assert!(matches!(error, ServerError::Acl(AclError::NoToken(_))), "{error:?}");
    }
    let missing = acl.delete_policy("p").await.unwrap_err();
    assert!(matches!(missing, ServerError::Acl(AclError::NoPolicy(_))), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_token_has_the_policy_anonymous() {
    let (_agent, acl) = service().await;
    let anonymous = |acl: &AclService| acl.rights(&acl.bearer(None).unwrap());
    assert!(!anonymous(&acl).reads_nodes());
    acl.write_policy("anonymous", policy(READS_NODES)).await.unwrap();
    assert!(anonymous(&acl).reads_nodes());
    assert!(!anonymous(&acl).is_management());
}

/// A token counts until its last moment, and is removed some time later.
#[tokio::test(start_paused = true)]
async fn a_token_ends_when_it_says() {
    let (agent, acl) = service().await;
    let life = Duration::from_secs(3600);
    let new = NewToken { expiry: TokenExpiry::After(life), ..client(&["p"]) };
    let (token, secret) = acl.create_token(new).await.unwrap();
    let end = token.token().unwrap().expires_at.unwrap();
    assert_eq!(end, agent.clock.now() + 3_600_000_000_000);
    agent.clock.advance(life - Duration::from_nanos(1));
    assert!(acl.bearer(Some(&hash(&secret))).is_ok());
    acl.remove_expired().await;
    assert!(acl.bearer(Some(&hash(&secret))).is_ok(), "it is not removed before");
    agent.clock.advance(Duration::from_nanos(1));
    assert_eq!(acl.bearer(Some(&hash(&secret))), Err(AclError::ExpiredToken));
    acl.remove_expired().await;
    assert_eq!(acl.bearer(Some(&hash(&secret))), Err(AclError::UnknownToken));
}

/// The first token is made once, also by two requests at a time, and with the secret that the operator gives.
#[tokio::test(start_paused = true)]
async fn the_first_token_is_made_once() {
    let (agent, acl) = service().await;
    let given = "8a3f1c52-9d0e-4a44-9a0c-2f6f7c1d9e10";
    let bad = acl.bootstrap(Some(Zeroizing::new("short".to_owned()))).await.unwrap_err();
    assert!(matches!(bad, ServerError::Acl(AclError::Invalid(_))), "{bad:?}");
    let secret = || Some(Zeroizing::new(given.to_owned()));
    let (one, other) = tokio::join!(acl.bootstrap(secret()), acl.bootstrap(None));
    let refused = match (one, other) {
        (Ok((_, secret)), Err(refused)) => {
            assert_eq!(*secret, given);
            refused
        }
        (Err(refused), Ok(_)) => refused,
        (one, other) => panic!("{one:?} {other:?}"),
    };
    let ServerError::Acl(AclError::AlreadyBootstrapped { reset_index }) = refused else {
        panic!("{refused:?}");
    };
    assert!(reset_index > 1, "{reset_index}");
    assert_eq!(agent.cell.read(|state| state.acl_tokens().count()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_without_an_acl_has_no_first_token() {
    let (_agent, acl) = service().await;
    let off = acl.with_settings(AclSettings::default());
    let refused = off.bootstrap(None).await.unwrap_err();
    assert!(matches!(refused, ServerError::Acl(AclError::Disabled)), "{refused:?}");
}
