// SPDX-License-Identifier: BSD-3-Clause
//! Parses a YAML document into a tree, with the line of each node and limits on size and depth.
//!
//! The parser returns events, so only the nodes that are kept here take memory. Depth, nodes and
//! bytes are limited. An alias becomes the index of its node, never a copy, so aliases of aliases
//! do not multiply.

use super::error::{Place, ProfileError};
use saphyr_parser::{Event, Parser};
use std::collections::HashMap;

/// Maximum number of bytes of a document.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Maximum number of nodes of a document. The largest profile of TRex has about 300.
const MAX_NODES: usize = 100_000;

/// Maximum depth of maps and lists inside each other. The format needs six.
const MAX_DEPTH: usize = 16;

/// Index of a node in its document.
pub(super) type NodeId = usize;

/// A scalar, list or map, and its line.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Scalar(String),
    List(Vec<NodeId>),
    /// Keys and values in turn.
    Map(Vec<NodeId>),
}

/// A parsed YAML document.
#[derive(Debug)]
pub(super) struct Document {
    origin: String,
    nodes: Vec<Node>,
    root: NodeId,
}

impl Document {
    /// Parses `text`. `origin` names it in errors.
    ///
    /// # Errors
    /// The text is no YAML, has no document or more than one, or exceeds a limit.
    pub(super) fn parse(text: &str, origin: &str) -> Result<Self, ProfileError> {
        if text.len() > MAX_BYTES {
            let (bytes, most) = (text.len(), MAX_BYTES);
            return Err(ProfileError::TooLong { origin: origin.to_owned(), bytes, most });
        }
        let mut builder = Builder { origin, ..Builder::default() };
        for event in Parser::new_from_str(text) {
            match event {
                Ok((event, span)) => builder.add(event, span.start.line())?,
                Err(error) => return Err(builder.fail(error.marker().line(), error.info())),
            }
        }
        match builder.root {
            Some(root) => Ok(Self { origin: origin.to_owned(), nodes: builder.nodes, root }),
            None => Err(builder.fail(1, "it is empty; write a list with one map")),
        }
    }

    pub(super) fn root(&self) -> NodeId {
        self.root
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Returns the place of `line` in this document.
    pub(super) fn place(&self, line: usize) -> Place {
        Place { origin: self.origin.clone(), line }
    }

    /// Returns a node in words for an error: a scalar shortened, a list or map by its kind.
    pub(super) fn describe(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            Kind::Scalar(text) if text.is_empty() => "an empty value".to_owned(),
            Kind::Scalar(text) => {
                let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
                format!("\"{shown}{}\"", if text.chars().nth(40).is_some() { "..." } else { "" })
            }
            Kind::List(items) => format!("a list of {}", items.len()),
            Kind::Map(_) => "a map".to_owned(),
        }
    }
}

/// A list or map whose end has not been parsed yet.
struct Open {
    node: NodeId,
    anchor: usize,
}

#[derive(Default)]
struct Builder<'a> {
    origin: &'a str,
    nodes: Vec<Node>,
    open: Vec<Open>,
    /// Complete nodes by the number of their anchor. So no node can contain itself.
    anchors: HashMap<usize, NodeId>,
    root: Option<NodeId>,
}

impl Builder<'_> {
    fn fail(&self, line: usize, reason: &str) -> ProfileError {
        let place = Place { origin: self.origin.to_owned(), line: line.max(1) };
        ProfileError::Syntax { place, reason: reason.to_owned() }
    }

    fn add(&mut self, event: Event<'_>, line: usize) -> Result<(), ProfileError> {
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let node = self.create(line, Kind::Scalar(text.into_owned()))?;
                self.finish(node, anchor);
            }
            Event::SequenceStart(anchor, _) => self.begin(line, Kind::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => self.begin(line, Kind::Map(Vec::new()), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { node, anchor }) = self.open.pop() {
                    self.finish(node, anchor);
                }
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(self.fail(line, "a second document begins; remove it"));
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(&node) => self.attach(node),
                None => return Err(self.fail(line, "an alias stands inside its own anchor")),
            },
            _ => {}
        }
        Ok(())
    }

    fn create(&mut self, line: usize, kind: Kind) -> Result<NodeId, ProfileError> {
        if self.nodes.len() == MAX_NODES {
            return Err(self.fail(line, "it has more than 100000 values"));
        }
        self.nodes.push(Node { line, kind });
        Ok(self.nodes.len() - 1)
    }

    fn begin(&mut self, line: usize, kind: Kind, anchor: usize) -> Result<(), ProfileError> {
        if self.open.len() == MAX_DEPTH {
            return Err(self.fail(line, "more than 16 lists and maps are inside of each other"));
        }
        let node = self.create(line, kind)?;
        self.open.push(Open { node, anchor });
        Ok(())
    }

    fn finish(&mut self, node: NodeId, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        self.attach(node);
    }

    /// Adds `node` to the innermost open list or map.
    fn attach(&mut self, node: NodeId) {
        let Some(open) = self.open.last() else {
            self.root = Some(node);
            return;
        };
        let (Kind::List(children) | Kind::Map(children)) = &mut self.nodes[open.node].kind else {
            unreachable!("only lists and maps are opened");
        };
        children.push(node);
    }
}
