//! The stored form of a map.

use super::*;

#[test]
fn a_map_is_stored_like_any_map() {
    let map = TextMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(text, r#"{"a":"1","b":"2"}"#);
    assert_eq!(serde_json::from_str::<TextMap>(&text).unwrap(), map);
    assert_eq!(TextMap::from(map.to_map()), map);
}
