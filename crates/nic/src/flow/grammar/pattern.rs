// SPDX-License-Identifier: BSD-3-Clause
//! Parses patterns.

use crate::flow::fields::{Field, Form, Variants, fields, variants};
use crate::flow::reader::{Reader, SyntaxError};
use dpdk::flow::{Item, ItemKind, LongValues, Value};

/// Reads items up to the word `end`.
pub(super) fn items(reader: &mut Reader<'_>, end: &'static str) -> Result<Vec<Item>, SyntaxError> {
    let mut pattern = Vec::new();
    while let Some(item) = item(reader, end)? {
        pattern.push(item);
    }
    Ok(pattern)
}

/// Reads an item and the `/` behind it; returns `None` at the `end`.
fn item(reader: &mut Reader<'_>, end: &'static str) -> Result<Option<Item>, SyntaxError> {
    let Some(kind) = reader.take_one(ItemKind::all().map(|kind| (kind.name(), kind))) else {
        return reader.need(end).map(|()| None);
    };
    let mut item = Item::any(kind);
    let mut fields = fields(kind);
    let variants = variants(kind.name());
    if let Some(whole) = fields.first().filter(|field| field.name.is_empty()) {
        while !reader.take("/") {
            constrain(reader, whole, &mut item)?;
        }
        return Ok(Some(item));
    }
    while !reader.take("/") {
        let of_type = match variants {
            Some(variants) => variant(reader, variants, &mut item)?,
            None => None,
        };
        if let Some(of_type) = of_type {
            fields = of_type;
            continue;
        }
        let named = fields.iter().map(|field| (field.name, field));
        let Some(field) = reader.take_one(named) else { return Err(reader.unexpected()) };
        constrain(reader, field, &mut item)?;
    }
    Ok(Some(item))
}

/// Reads the type of an item, if its words are there; returns the fields of that type.
fn variant(
    reader: &mut Reader<'_>,
    variants: &'static Variants,
    item: &mut Item,
) -> Result<Option<&'static [Field]>, SyntaxError> {
    let Some((first, more)) = variants.words.split_first() else { return Ok(None) };
    if !reader.take(first) {
        return Ok(None);
    }
    more.iter().try_for_each(|word| reader.need(word))?;
    let named = variants.list.iter().map(|variant| (variant.word, variant));
    let Some(variant) = reader.take_one(named) else { return Err(reader.unexpected()) };
    let (first, width) = (variants.first, variants.width);
    item.spec.get_or_insert(Value::ZERO).set_bits(first, width, variant.number);
    item.mask.get_or_insert(Value::ZERO).set_bits(first, width, u128::MAX);
    Ok(Some(variant.fields))
}

/// Reads what follows the name of a field. `is` is a spec with a mask of ones.
fn constrain(reader: &mut Reader<'_>, field: &Field, item: &mut Item) -> Result<(), SyntaxError> {
    if field.is_long() {
        return constrain_long(reader, field, item);
    }
    let set = |value: &mut Option<Value>, bits| {
        value.get_or_insert(Value::ZERO).set_bits(field.first, field.width, bits);
    };
    if reader.take("is") {
        set(&mut item.spec, reader.formed(field.form, field.width)?);
        set(&mut item.mask, u128::MAX);
    } else if reader.take("spec") {
        set(&mut item.spec, reader.formed(field.form, field.width)?);
    } else if reader.take("last") {
        set(&mut item.last, reader.formed(field.form, field.width)?);
    } else if reader.take("mask") {
        set(&mut item.mask, reader.formed(mask_form(field.form), field.width)?);
    } else if reader.take("prefix") {
        let ones = reader.number("BITS", field.width as u128)? as usize;
        set(&mut item.mask, prefix(ones, field.width));
    } else {
        return Err(reader.unexpected());
    }
    Ok(())
}

/// Masks of negative numbers have no sign.
fn mask_form(form: Form) -> Form {
    if form == Form::Signed { Form::Number } else { form }
}

/// Reads bytes of any length.
fn constrain_long(
    reader: &mut Reader<'_>,
    field: &Field,
    item: &mut Item,
) -> Result<(), SyntaxError> {
    let parts = [("is", "is"), ("spec", "spec"), ("last", "last"), ("mask", "mask")];
    let Some(part) = reader.take_one(parts) else { return Err(reader.unexpected()) };
    let bytes = reader.long(field.form)?;
    let long: &mut LongValues = item.long.get_or_insert_default();
    let value = match part {
        "is" => {
            long.mask = vec![u8::MAX; bytes.len()];
            long.spec = bytes;
            item.mask.get_or_insert(Value::ZERO);
            &mut item.spec
        }
        "spec" => {
            long.spec = bytes;
            &mut item.spec
        }
        "last" => {
            long.last = bytes;
            &mut item.last
        }
        _ => {
            long.mask = bytes;
            &mut item.mask
        }
    };
    value.get_or_insert(Value::ZERO);
    item.long = item.long.take().filter(|long| **long != LongValues::default());
    Ok(())
}

/// Returns a mask of `width` bits that begins with `ones` ones.
pub(in crate::flow) fn prefix(ones: usize, width: usize) -> u128 {
    let zeros = width - ones;
    if ones == 0 { 0 } else { u128::MAX >> (128 - ones) << zeros }
}
