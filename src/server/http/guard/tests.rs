use http::Request;

use super::*;

fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn names(names: &[&str]) -> AllowedHosts {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    AllowedHosts::parse(&names).unwrap()
}

fn local(method: &str, headers: &[(&str, &str)]) -> Result<(), RequestError> {
    check(&head(method, "/v1/volumes", headers), true, &names(&["nas.lan", "192.0.2.7"]))
}

#[test]
fn only_own_names_are_answered_over_loopback() {
    for host in [
        "127.0.0.1:4646",
        "127.0.0.1",
        "127.3.2.1:80",
        "[::1]:4646",
        "[::ffff:127.0.0.1]:4646",
        "localhost",
        "LocalHost:5000",
        "localhost.:5000",
        "nas.lan",
        "NAS.LAN:4646",
        "192.0.2.7:1",
    ] {
        assert_eq!(local("GET", &[("host", host)]), Ok(()), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:4646",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "192.0.2.8",
        "0.0.0.0:4646",
        "2130706433",
        "0x7f.1",
        "nas.lan.evil.example",
        "",
        "a b",
    ] {
        let refused = local("GET", &[("host", host)]);
        let expected = RequestError::ForeignHost(host.to_owned());
        assert_eq!(refused, Err(expected), "{host}");
    }
}

#[test]
fn two_names_in_one_request_are_refused() {
    for (uri, hosts) in [
        ("/", vec!["localhost", "evil.example"]),
        ("/", vec!["evil.example", "localhost"]),
        ("http://evil.example/", vec!["localhost"]),
        ("http://localhost/", vec!["evil.example"]),
        ("http://evil.example/", vec![]),
    ] {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        let refused = check(&head("GET", uri, &headers), true, &names(&[]));
        assert!(refused.is_err(), "{uri} {hosts:?}");
    }
    assert_eq!(local("GET", &[]), Ok(()), "no browser omits it");
}

#[test]
fn another_network_address_has_names_that_the_agent_does_not_know() {
    let head = head("GET", "/", &[("host", "agent.example:4646")]);
    assert_eq!(check(&head, false, &names(&[])), Ok(()));
}

#[test]
fn a_foreign_origin_is_refused_whatever_the_listener() {
    for (origin, host, is_allowed) in [
        ("http://evil.example", "127.0.0.1:4646", false),
        ("http://evil.example", "evil.example", false),
        ("https://localhost.evil.example", "localhost", false),
        ("null", "127.0.0.1:4646", false),
        ("", "127.0.0.1:4646", false),
        ("127.0.0.1:4646", "127.0.0.1:4646", false),
        // Another program of this machine, such as a development server.
        ("http://localhost:3000", "localhost:4646", false),
        ("http://127.0.0.1:4646", "127.0.0.1:4646", true),
        ("http://localhost:4646", "localhost:4646", true),
        ("http://[::1]:4646", "[::1]:4646", true),
        ("https://nas.lan", "127.0.0.1:4646", true),
        ("https://nas.lan:8443", "nas.lan", true),
        ("https://evil.nas.lan", "nas.lan", false),
    ] {
        for (method, is_local) in [("GET", false), ("PUT", false), ("OPTIONS", false)] {
            let head = head(method, "/", &[("host", host), ("origin", origin)]);
            let found = check(&head, is_local, &names(&["nas.lan"]));
            assert_eq!(found.is_ok(), is_allowed, "{method} {origin} {host}");
        }
    }
    let two = [("origin", "http://localhost"), ("origin", "http://evil.example")];
    assert!(local("GET", &[&[("host", "localhost")], &two[..]].concat()).is_err());
}

#[test]
fn a_write_of_a_browser_is_json_or_has_no_type() {
    let own_origin = ("origin", "http://localhost");
    let browsers: &[&[(&str, &str)]] = &[
        &[own_origin],
        &[("sec-fetch-site", "cross-site")],
        &[("Sec-Fetch-Mode", "no-cors")],
        &[("SEC-FETCH-DEST", "")],
        &[own_origin, ("sec-fetch-site", "same-origin")],
    ];
    for (content_type, is_allowed) in [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("application/json;x=y", true),
        ("", true),
        ("text/plain", false),
        ("text/plain; application/json", false),
        ("application/x-www-form-urlencoded", false),
        ("multipart/form-data; boundary=x", false),
        ("application/json-evil", false),
        ("application/json, text/plain", false),
    ] {
        let headers = [("host", "localhost"), ("content-type", content_type)];
        for browser in browsers {
            let headers = [&headers[..], browser].concat();
            for method in ["PUT", "POST", "DELETE", "PATCH"] {
                let found = local(method, &headers);
                assert_eq!(found.is_ok(), is_allowed, "{method} {content_type} {browser:?}");
            }
            assert_eq!(local("GET", &headers), Ok(()));
        }
        for method in ["PUT", "POST", "DELETE", "PATCH"] {
            assert_eq!(local(method, &headers), Ok(()), "a program: {method} {content_type}");
        }
    }
    assert_eq!(local("PUT", &[("host", "localhost")]), Ok(()));
    assert_eq!(local("POST", &[("host", "localhost"), own_origin]), Ok(()));
}

/// What a page can send without a question of the browser, with the headers that browsers add to it.
#[test]
fn a_form_of_another_origin_is_refused() {
    for (content_type, origin, site) in [
        ("application/x-www-form-urlencoded", Some("http://evil.example"), Some("cross-site")),
        ("text/plain", Some("null"), None),
        ("text/plain", Some("http://localhost:3000"), Some("same-site")),
        ("multipart/form-data; boundary=x", None, Some("cross-site")),
    ] {
        let mut headers = vec![("host", "localhost:4646"), ("content-type", content_type)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        headers.extend(site.map(|site| ("sec-fetch-site", site)));
        assert!(local("POST", &headers).is_err(), "{headers:?}");
    }
}

#[test]
fn the_shown_text_is_short_and_visible() {
    let long = "e".repeat(10_000);
    let Err(RequestError::ForeignHost(host)) = local("GET", &[("host", &long)]) else {
        panic!("the host was accepted")
    };
    assert_eq!(host.len(), SHOWN);
    let value = HeaderValue::from_bytes(b"text/\xc2\x9bplain\tx").unwrap();
    assert_eq!(header_text(&value), "text/plainx");
}

#[test]
fn configured_names_are_hosts_without_a_port() {
    for name in ["nas", "nas.lan.", "192.0.2.7", "[2001:db8::1]", "2001:db8::1"] {
        assert!(AllowedHosts::parse(&[name.to_owned()]).is_ok(), "{name}");
    }
    for name in ["", "nas:4646", "http://nas", "*", "a b", "näs"] {
        assert_eq!(AllowedHosts::parse(&[name.to_owned()]), Err(name.to_owned()));
    }
}
