//! Functions of lists and maps. Items keep their marks.

use std::rc::Rc;

use super::call::{Failure, list, map, text, whole};
use crate::expression::budget::Budget;
use crate::expression::value::{Kind, MAX_LEVELS, MapItems, Value, is_equal};

/// Limit of the items of `range`.
const MAX_RANGE: i64 = 100_000;

type Result = std::result::Result<Value, Failure>;

pub(super) fn length(args: &[Value], budget: &mut Budget) -> Result {
    let length = match args.first().map(|value| &value.kind) {
        Some(Kind::Text(text)) => {
            budget.read_text(text.len())?;
            text.chars().count()
        }
        Some(Kind::List(items, _)) => items.len(),
        Some(Kind::Map(items, _)) => items.len(),
        Some(_) | None => 0,
    };
    Ok(Value::integer(i64::try_from(length).unwrap_or(i64::MAX)))
}

pub(super) fn keys(args: &[Value], budget: &mut Budget) -> Result {
    let keys = map(args, 0).into_iter().flat_map(MapItems::keys);
    budget.take_values(map(args, 0).map_or(0, MapItems::len))?;
    let keys: Vec<Value> = keys.map(|key| Kind::Text(Rc::clone(key)).into()).collect();
    Ok(Value::list(keys)?)
}

pub(super) fn lookup(args: &[Value], _: &mut Budget) -> Result {
    let found = map(args, 0).and_then(|items| items.get(text(args, 1)));
    Ok(found.or(args.get(2)).cloned().unwrap_or(Value::NULL))
}

pub(super) fn element(args: &[Value], _: &mut Budget) -> Result {
    let items = list(args, 0);
    let index = whole(args, 1)?;
    if items.is_empty() {
        return Err(Failure::argument(0, "the list is empty"));
    }
    let Ok(index) = usize::try_from(index) else {
        let reason = format!("the index {index} is negative");
        return Err(Failure::Argument { index: 1, reason, hidden: "the index is negative" });
    };
    Ok(items.get(index % items.len()).cloned().unwrap_or(Value::NULL))
}

pub(super) fn contains(args: &[Value], budget: &mut Budget) -> Result {
    let wanted = args.get(1).unwrap_or(&Value::NULL);
    for item in list(args, 0) {
        if is_equal(item, wanted, budget)? {
            return Ok(Value::boolean(true));
        }
    }
    Ok(Value::boolean(false))
}

pub(super) fn merge(args: &[Value], budget: &mut Budget) -> Result {
    let mut merged = MapItems::new();
    for items in (0..args.len()).filter_map(|index| map(args, index)) {
        budget.take_values(items.len())?;
        merged.extend(items.iter().map(|(key, value)| (Rc::clone(key), value.clone())));
    }
    Ok(Value::map(merged)?)
}

pub(super) fn concat(args: &[Value], budget: &mut Budget) -> Result {
    let mut items = vec![];
    for index in 0..args.len() {
        budget.take_values(list(args, index).len())?;
        items.extend_from_slice(list(args, index));
    }
    Ok(Value::list(items)?)
}

pub(super) fn flatten(args: &[Value], budget: &mut Budget) -> Result {
    let mut flat = vec![];
    let is_sensitive = flatten_into(list(args, 0), false, MAX_LEVELS, &mut flat, budget)?;
    Ok(Value::list(flat)?.marked(is_sensitive))
}

/// Adds items and those of lists in them, and returns whether a list is sensitive, whose number of
/// items the result shows. No value has more levels than `levels`.
fn flatten_into(
    items: &[Value],
    is_sensitive: bool,
    levels: u8,
    flat: &mut Vec<Value>,
    budget: &mut Budget,
) -> std::result::Result<bool, Failure> {
    let mut has_sensitive_list = false;
    for item in items {
        let is_sensitive = is_sensitive || item.is_sensitive;
        match &item.kind {
            Kind::List(inner, _) if levels > 0 => {
                budget.take_steps(1)?;
                has_sensitive_list |= item.is_sensitive;
                has_sensitive_list |= flatten_into(inner, is_sensitive, levels - 1, flat, budget)?;
            }
            Kind::Null
            | Kind::Bool(_)
            | Kind::Integer(_)
            | Kind::Float(_)
            | Kind::Text(_)
            | Kind::List(..)
            | Kind::Map(..)
            | Kind::Secret(_)
            | Kind::Unknown => {
                budget.take_values(1)?;
                flat.push(item.clone().marked(is_sensitive));
            }
        }
    }
    Ok(has_sensitive_list)
}

pub(super) fn distinct(args: &[Value], budget: &mut Budget) -> Result {
    let mut different: Vec<Value> = vec![];
    for item in list(args, 0) {
        let mut is_new = true;
        for other in &different {
            if is_equal(item, other, budget)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            budget.take_values(1)?;
            different.push(item.clone());
        }
    }
    Ok(Value::list(different)?)
}

pub(super) fn range(args: &[Value], budget: &mut Budget) -> Result {
    let first = whole(args, 0)?;
    let (start, end) = match args.len() {
        0 | 1 => (0, first),
        2.. => (first, whole(args, 1)?),
    };
    let last = args.len().saturating_sub(1);
    let count = match end.checked_sub(start) {
        Some(count) if count <= MAX_RANGE => count.max(0),
        Some(_) | None => {
            return Err(Failure::argument(last, "the list has more than 100,000 items"));
        }
    };
    budget.take_values(usize::try_from(count).unwrap_or(usize::MAX))?;
    let items: Vec<Value> = (0..count).map(|index| Value::integer(start + index)).collect();
    Ok(Value::list(items)?)
}

pub(super) fn coalesce(args: &[Value], _: &mut Budget) -> Result {
    let is_empty = |value: &Value| match &value.kind {
        Kind::Null => true,
        Kind::Text(text) => text.is_empty(),
        Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::List(..)
        | Kind::Map(..)
        | Kind::Secret(_)
        | Kind::Unknown => false,
    };
    let found = args.iter().find(|value| !is_empty(value)).cloned();
    let last = args.len().saturating_sub(1);
    found.ok_or_else(|| Failure::argument(last, "every argument is null or an empty text"))
}
