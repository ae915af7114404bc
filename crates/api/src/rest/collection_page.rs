//! Reads of collections: some elements by name, or a page of them in the order of names or positions, of scores, or from a rank
//! on. The query of a request goes in; elements come out as a quorum has them, and as clients are shown them.

use super::Rest;
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::store::live;
use super::value::{kind_name, show_bytes, text_of};
use base::Code;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mesh::collection::{Direction, ElementEntry, ScorePaging};
use mesh::{Decimal, ELEMENTS_MAX, ElementsPage, ElementsQuery, ElementsRead, Key, Kind, Level, Record};
use serde_json::{Map, Value};

/// Elements of a page, if the request does not say.
const PAGE_DEFAULT: u64 = 100;

/// Which page of a collection.
#[derive(Debug)]
pub struct PageQuery {
    pub limit: usize,
    pub after: Option<Bytes>,
    pub rank: Option<u64>,
    pub least: Option<Decimal>,
    pub greatest: Option<Decimal>,
    pub direction: Direction,
}

pub struct SeenPage {
    pub record: Box<Record>,
    /// None where replicas differ in more than a count looks at.
    pub size: Option<u64>,
    pub estimate: Option<u64>,
    pub entries: Vec<ElementEntry>,
    pub next: Option<Bytes>,
}

impl PageQuery {
    pub fn of(head: &RequestHead, kind: Kind) -> Result<PageQuery, Refusal> {
        let query = &head.query;
        let bad_page = || Refusal::bad("page must be the next_page of an earlier answer");
        let after = match query.get("page") {
            Some(page) => Some(Bytes::from(URL_SAFE_NO_PAD.decode(page).map_err(|_| bad_page())?)),
            None => None,
        };
        let score = |name: &str| match query.get(name) {
            Some(text) => Decimal::parse(text)
                .map(Some)
                .ok_or_else(|| Refusal::bad(format!("{name}={text} is no decimal, as 12.5"))),
            None => Ok(None),
        };
        let asked = PageQuery {
            limit: query.number("limit", 0, ELEMENTS_MAX as u64)?.unwrap_or(PAGE_DEFAULT) as usize,
            after,
            rank: query.number("rank", 0, u64::MAX)?,
            least: score("min_score")?,
            greatest: score("max_score")?,
            direction: if query.flag("reverse")? { Direction::Down } else { Direction::Up },
        };
        asked.checked(kind, bad_page)
    }

    pub fn checked(self, kind: Kind, bad_page: impl Fn() -> Refusal) -> Result<PageQuery, Refusal> {
        let has_scores = self.least.is_some() || self.greatest.is_some() || self.direction == Direction::Down;
        if has_scores && kind != Kind::SortedSet {
            return Err(Refusal::bad("min_score, max_score and reverse are for a sorted_set"));
        }
        if self.rank.is_some() && (has_scores || self.after.is_some()) {
            return Err(Refusal::bad("rank stands without page, min_score, max_score and reverse"));
        }
        let is_place = |page: &Bytes| kind != Kind::SortedSet || ScorePaging::is_place(page);
        if self.after.as_ref().is_some_and(|page| !is_place(page)) {
            return Err(bad_page());
        }
        Ok(self)
    }

    fn question(&self, kind: Kind) -> ElementsQuery {
        let limit = self.limit;
        if let Some(from) = self.rank {
            return ElementsQuery::Ranks { from, limit };
        }
        if kind != Kind::SortedSet {
            return ElementsQuery::Page { after: self.after.clone(), limit };
        }
        let from = self.least.unwrap_or(Decimal(i128::MIN));
        let to = self.greatest.unwrap_or(Decimal(i128::MAX));
        let (after, direction) = (self.after.clone(), self.direction);
        ElementsQuery::Scores(ScorePaging { from, to, direction, after, limit })
    }
}

/// A page of a collection, and how many elements there are. The replicas that give the page know the number unless they differ;
/// then they count what differs.
pub async fn page(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    kind: Kind,
    query: &PageQuery,
) -> Result<SeenPage, Refusal> {
    let has_elements = !matches!(kind, Kind::Flag | Kind::HyperLogLog);
    let wanted = if query.limit > 0 && has_elements { query.question(kind) } else { ElementsQuery::Count };
    let asks_count = wanted == ElementsQuery::Count;
    let page = read(rest, head, key.clone(), kind, wanted).await?;
    let record = live(rest, page.record)?;
    let (size, estimate) = match page.count {
        None if !asks_count => {
            let counted = read(rest, head, key, kind, ElementsQuery::Count).await?;
            (counted.count, counted.estimate)
        }
        count => (count, page.estimate),
    };
    Ok(SeenPage { record, size, estimate, entries: page.elements, next: page.next })
}

/// The elements of these names that exist.
pub async fn named(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    kind: Kind,
    names: Vec<Bytes>,
) -> Result<Vec<ElementEntry>, Refusal> {
    Ok(read(rest, head, key, kind, ElementsQuery::Named(names)).await?.elements)
}

pub async fn read(
    rest: &Rest,
    head: &RequestHead,
    key: Key,
    kind: Kind,
    query: ElementsQuery,
) -> Result<ElementsPage, Refusal> {
    let (session, min) = (head.session()?.cloned().unwrap_or_default(), head.clock("X-Min-Vector-Clock")?);
    let level = head.level()?;
    let is_near = !level.spans_regions() && level != Level::Linearizable;
    if !is_near || !session.is_empty() || min.is_some_and(|min| !min.is_empty()) {
        let name = kind_name(kind);
        let message = format!(
            "a {name} is read by a quorum of this region, without a session or a version that it must have seen"
        );
        return Err(Refusal::new(Code::NotForCollections, message));
    }
    let r = head.r(rest)?;
    let page: ElementsPage = rest.get(ElementsRead { key, query, r }, head.timeout()?).await?;
    match page.record.as_ref().map(|record| record.kind).filter(|found| *found != kind) {
        Some(found) => {
            let message = format!("the key holds a {}, not a {}", kind_name(found), kind_name(kind));
            Err(Refusal::new(Code::WrongType, message))
        }
        None => Ok(page),
    }
}

/// The name of an element, as clients know it: text, or the position of an item.
pub fn shown_name(kind: Kind, name: &Bytes) -> String {
    if kind == Kind::List { URL_SAFE_NO_PAD.encode(name) } else { text_of(name).into_owned() }
}

/// What an element holds: a score or an amount as text, because they are exact, and a value as the JSON that it came as.
pub fn shown(kind: Kind, entry: &ElementEntry) -> Value {
    match (kind, entry.state.register()) {
        (Kind::SortedSet, _) => entry.state.score().to_string().into(),
        (_, Some(value)) => serde_json::to_value(show_bytes(value, None).0).unwrap_or(Value::Null),
        (_, None) => entry.state.amount().to_string().into(),
    }
}

/// An element of a page.
pub fn shown_entry(kind: Kind, entry: &ElementEntry) -> Map<String, Value> {
    let (name, value) = match kind {
        Kind::SortedSet => ("member", "score"),
        Kind::List => ("position", "value"),
        _ => ("field", "value"),
    };
    let mut said = Map::new();
    said.insert(name.to_owned(), shown_name(kind, &entry.name).into());
    said.insert(value.to_owned(), shown(kind, entry));
    said
}
