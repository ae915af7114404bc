//! Every route of the REST API, with the methods that it takes.
//! The router is made of this list, and a test holds the description in `openapi.rs` against it: what is served is
//! described, and what is described is served.

use super::guard::RouteAccess;
use super::{
    Rest, access, batch, cluster, conflicts, coord, coord_watch, crdt, data, events, feed, handlers, home,
    inspect, locks, maintenance, namespaces, openapi, range, regions, ring, select, store, upgrade,
};
use axum::handler::Handler;
use axum::routing::MethodRouter;

pub struct Route {
    /// As the router reads it: a last `{*key}` takes slashes too.
    pattern: String,
    pub handler: MethodRouter<Rest>,
    needs: Vec<(&'static str, RouteAccess)>,
    /// Methods that are described with other routes.
    undescribed: Vec<&'static str>,
}

impl Route {
    fn at(pattern: impl Into<String>) -> Route {
        Route {
            pattern: pattern.into(),
            handler: MethodRouter::new(),
            needs: Vec::new(),
            undescribed: Vec::new(),
        }
    }

    pub fn pattern(&self) -> String {
        self.pattern.clone()
    }

    fn get<T: 'static>(mut self, need: RouteAccess, handler: impl Handler<T, Rest>) -> Route {
        self.needs.push(("get", need));
        self.handler = self.handler.get(handler);
        self
    }

    fn put<T: 'static>(mut self, need: RouteAccess, handler: impl Handler<T, Rest>) -> Route {
        self.needs.push(("put", need));
        self.handler = self.handler.put(handler);
        self
    }

    fn post<T: 'static>(mut self, need: RouteAccess, handler: impl Handler<T, Rest>) -> Route {
        self.needs.push(("post", need));
        self.handler = self.handler.post(handler);
        self
    }

    fn delete<T: 'static>(mut self, need: RouteAccess, handler: impl Handler<T, Rest>) -> Route {
        self.needs.push(("delete", need));
        self.handler = self.handler.delete(handler);
        self
    }

    /// A key may be called like the route; it is described with the other keys.
    fn or_a_key(self) -> Route {
        let mut route = of_a_key(self);
        route.undescribed = vec!["get", "put", "delete"];
        route
    }

    /// Another spelling of a route that is described: the first design had its paths without a prefix.
    fn unlisted(mut self) -> Route {
        self.undescribed = self.needs.iter().map(|(method, _)| *method).collect();
        self
    }

    /// What each method asks of its caller.
    pub fn needs(&self) -> Vec<(&'static str, RouteAccess)> {
        self.needs.clone()
    }

    /// The same below another path.
    fn below(mut self, base: &str) -> Route {
        self.pattern = format!("{base}{}", self.pattern);
        self
    }
}

/// Where the routes of a namespace lie when the path names it.
const NAMED: &str = "/v1/namespaces/{ns}";

pub fn all() -> Vec<Route> {
    use RouteAccess::{Admin, CoordRead, CoordReadAndWrite, CoordWrite, Member, Open};
    use RouteAccess::{Read, ReadConflicts, RestoreConflict, Root, User};
    let mut routes = vec![
        Route::at("/v1/namespaces").get(User, namespaces::list),
        Route::at("/v1/namespaces/{ns}")
            .get(Member, namespaces::get)
            .put(Admin, namespaces::put)
            .delete(Admin, namespaces::delete),
        Route::at("/v1/namespaces/{ns}/home").get(Member, home::get).put(Admin, home::put),
        Route::at("/v1/handlers").get(User, handlers::list),
        Route::at("/v1/handlers/{handler}")
            .get(User, handlers::get)
            .put(Root, handlers::put)
            .delete(Root, handlers::delete),
        Route::at("/v1/conflicts").get(ReadConflicts, conflicts::list),
        Route::at("/v1/conflicts/{id}").get(ReadConflicts, conflicts::get),
        Route::at("/v1/conflicts/{id}/restore").post(RestoreConflict, conflicts::restore),
        Route::at("/v1/regions").get(User, regions::list),
        Route::at("/v1/regions/{region}")
            .get(User, regions::get)
            .put(Root, regions::put)
            .delete(Root, regions::delete),
        Route::at("/v1/ring").get(User, ring::get),
        Route::at("/v1/ring/nodes/{node}").delete(Root, ring::leave).put(Root, ring::stay),
        Route::at("/v1/clients").get(Root, inspect::clients),
        Route::at("/v1/watches").get(Root, inspect::watches),
        Route::at("/v1/leases").get(Root, inspect::leases),
        Route::at("/v1/cluster").get(User, cluster::get),
        Route::at("/v1/cluster/events").get(User, cluster::events),
        Route::at("/v1/cluster/metrics").get(User, cluster::metrics),
        Route::at("/v1/events").get(User, events::get),
        Route::at("/v1/feed").get(Read, feed::get),
        Route::at("/v1/coord/keys").get(CoordRead, coord::list),
        Route::at("/v1/coord/key")
            .get(CoordRead, coord::get)
            .put(CoordWrite, coord::put)
            .delete(CoordWrite, coord::delete),
        Route::at("/v1/coord/watch").get(CoordRead, coord_watch::get),
        Route::at("/v1/coord/history").get(CoordRead, coord::history),
        Route::at("/v1/locks").get(User, locks::list),
        Route::at("/v1/lock")
            .get(CoordRead, locks::get)
            .put(CoordReadAndWrite, locks::update)
            .delete(CoordReadAndWrite, locks::remove),
        Route::at("/v1/session").get(Open, access::session).post(Open, access::login),
        Route::at("/v1/access").get(Root, access::table),
        Route::at("/v1/settings").get(Root, maintenance::settings),
        Route::at("/v1/slow-requests").get(Root, maintenance::slow_requests),
        Route::at("/v1/compaction").get(Root, inspect::compaction).post(Root, maintenance::compact),
        Route::at("/v1/defragment").post(Root, maintenance::defragment),
        Route::at("/v1/quota").get(User, maintenance::quota).put(Root, maintenance::set_quota),
        Route::at("/v1/snapshot").get(Root, maintenance::snapshot),
        Route::at("/v1/alarms").delete(Root, maintenance::clear_alarms),
        Route::at("/v1/leader").put(Root, maintenance::move_leader),
        Route::at("/v1/upgrade").get(User, upgrade::get),
        Route::at("/v1/upgrade/finalize").post(Root, upgrade::finalize),
        Route::at("/openapi.json").get(Open, openapi::get),
    ];
    for (base, make) in [
        ("/api/v1/store".to_owned(), of_store as fn() -> Vec<Route>),
        (format!("{NAMED}/store"), of_store),
        ("/v1/data".to_owned(), of_data),
        (format!("{NAMED}/data"), of_data),
        ("/v1/crdt".to_owned(), of_crdt),
        (format!("{NAMED}/crdt"), of_crdt),
    ] {
        routes.extend(make().into_iter().map(|route| route.below(&base)));
    }
    routes.extend(
        of_store().into_iter().filter(|route| !route.pattern.starts_with("/keys")).map(Route::unlisted),
    );
    routes.push(Route::at("/v3/api-docs").get(Open, openapi::get).unlisted());
    routes
}

fn of_store() -> Vec<Route> {
    use RouteAccess::{Read, ReadAndWrite, Write};
    let one = |pattern| {
        Route::at(pattern).get(Read, store::get).put(Write, store::put).delete(Write, store::delete)
    };
    vec![
        Route::at("/keys").post(Write, store::post),
        one("/keys/{*key}"),
        Route::at("/key").put(Write, store::post).get(Read, store::get).delete(Write, store::delete),
        one("/key/{*key}"),
        Route::at("/batch").post(Write, batch::write),
        Route::at("/range").get(Read, range::get).delete(ReadAndWrite, range::delete),
    ]
}

fn of_data() -> Vec<Route> {
    vec![
        Route::at("").get(RouteAccess::Read, select::get),
        Route::at("/batch").post(RouteAccess::ReadOrWrite, batch::either).or_a_key(),
        Route::at("/batch/read").post(RouteAccess::Read, batch::read).or_a_key(),
        Route::at("/batch/write").post(RouteAccess::Write, batch::write).or_a_key(),
        of_a_key(Route::at("/{*key}")),
    ]
}

fn of_a_key(route: Route) -> Route {
    route
        .get(RouteAccess::Read, data::get)
        .put(RouteAccess::Write, data::put)
        .delete(RouteAccess::Write, data::delete)
}

fn of_crdt() -> Vec<Route> {
    let route = Route::at("/{*key}").get(RouteAccess::Read, crdt::get);
    vec![route.post(RouteAccess::ReadAndWrite, crdt::post).delete(RouteAccess::Write, crdt::delete)]
}

/// Every path and method as the description writes them, with what they ask of their caller.
pub fn described() -> impl Iterator<Item = (String, &'static str, RouteAccess)> {
    all().into_iter().flat_map(|route| {
        let Route { pattern, needs, undescribed, .. } = route;
        let shown = needs.into_iter().filter(move |(method, _)| !undescribed.contains(method));
        shown.map(move |(method, need)| (described_path(method, &pattern), method, need))
    })
}

fn described_path(method: &str, pattern: &str) -> String {
    match (pattern.contains("/crdt/"), method) {
        (true, "post") => pattern.replace("{*key}", "{type}:{key}/{operation}"),
        (true, _) => pattern.replace("{*key}", "{type}:{key}"),
        (false, _) => pattern.replace("{*key}", "{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_served_is_described_and_what_is_described_is_served() {
        let served: BTreeSet<(String, String)> =
            described().map(|(path, method, _)| (path, method.to_owned())).collect();
        let document = openapi::document();
        let paths = document["paths"].as_object().unwrap();
        let written: BTreeSet<(String, String)> = paths
            .iter()
            // These are the gateway's.
            .filter(|(path, _)| !openapi::lock_calls::is_described(path))
            .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |method| (path, method)))
            .map(|(path, method)| (path.clone(), method.clone()))
            .collect();
        assert_eq!(served, written);
    }

    /// The page is written by hand, and has exactly these lines.
    #[test]
    fn every_path_and_method_has_its_permission_in_the_documents() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/permissions.md");
        let page = std::fs::read_to_string(page).unwrap();
        let listed: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `/")).collect();
        let line = |(path, method, need): (String, &str, RouteAccess)| {
            format!("| `{path}` | {} | {} |", method.to_uppercase(), need.describe())
        };
        let served: BTreeSet<String> = described().map(line).collect();
        let missing: Vec<&String> = served.iter().filter(|line| !listed.contains(line.as_str())).collect();
        let unserved: Vec<&&str> = listed.iter().filter(|line| !served.contains(**line)).collect();
        assert!(missing.is_empty() && unserved.is_empty(), "missing {missing:#?} not served {unserved:#?}");
        for (path, methods) in openapi::document()["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                assert!(operation["x-permission"].is_string(), "{method} {path}");
            }
        }
    }
}
