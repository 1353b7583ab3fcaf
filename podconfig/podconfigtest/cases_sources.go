// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// readinessCases test the first snapshot of a source.
func readinessCases() []Case {
	return []Case{
		rule("first snapshot, empty: an ADD without pods, once", snapshot("ADD[]+"), snapshot("")),
		rule("first snapshot with pods: no empty ADD", snapshot("ADD[a/1]+", a()), snapshot("REMOVE[a/1]"), snapshot("")),
		rule("first snapshot that only removes and reconciles", upsert("ADD[a/1 b/2]", a(), b()), snapshot("REMOVE[b/2] ADD[] RECONCILE[a/1]+", a(Phase(v1.PodRunning)))),
		rule("first snapshot that only removes", upsert("ADD[a/1]", a()), snapshot("REMOVE[a/1] ADD[]+")),
		rule("first snapshot that changes nothing", upsert("ADD[a/1]", a()), snapshot("ADD[]+", a())),
		rule("first snapshot that updates: no empty ADD", upsert("ADD[a/1]", a()), snapshot("UPDATE[a/1]+", a(Image("x:2")))),
		rule("first snapshot that deletes: no empty ADD", upsert("ADD[a/1]", a()), snapshot("DELETE[a/1]+", a(Deleting(1)))),
		rule("deltas do not make a source ready", upsert("ADD[a/1]", a()), remove("REMOVE[a/1]", "1"), upsert(""), snapshot("ADD[]+")),
		rule("each source is ready on its own", snapshot("ADD[a/1]+", a()), from("api", "ADD[]+", podconfig.Snapshot()), from("http", "ADD[b/2]+", podconfig.Snapshot(b()))),
	}
}

// sourceCases test typical changes by users, in the form in which the file, URL and API server sources
// submit the changes.
func sourceCases() []Case {
	mirror := Pod("a", "mirror-uid", Annotation(podconfig.AnnotationMirror, "h"), Annotation(podconfig.AnnotationSource, "file"))
	return []Case{
		rule("sources are a union", snapshot("ADD[a/1]+", a()), from("api", "ADD[a/1]+", podconfig.Snapshot(a())),
			from("api", "REMOVE[a/1]", podconfig.Snapshot()), snapshot("", a())),
		rule("file: an edited manifest is another pod of that name", snapshot("ADD[a/1]+", a(Annotation(podconfig.AnnotationHash, "1"))),
			snapshot("REMOVE[a/1] ADD[a/2]", Pod("a", "2", Image("x:2"), Annotation(podconfig.AnnotationHash, "2")))),
		rule("file: an edited manifest with a uid is an update", snapshot("ADD[a/1]+", a(Annotation(podconfig.AnnotationHash, "1"))),
			snapshot("UPDATE[a/1]", a(Image("x:2"), Annotation(podconfig.AnnotationHash, "2")))),
		rule("file: a file that is gone", snapshot("ADD[a/1 b/2]+", a(), b()), remove("REMOVE[a/1]", "1")),
		rule("file: a missing folder is empty, and the source ready", snapshot("ADD[]+")),
		rule("file: a folder that is emptied and filled again", snapshot("ADD[a/1]+", a()), snapshot("REMOVE[a/1]"), snapshot("ADD[a/1]", a())),
		{Name: "http: an empty list ends all pods", Steps: []Step{
			from("http", "ADD[a/1 b/2]+", podconfig.Snapshot(a(), b())), from("http", "REMOVE[a/1 b/2]", podconfig.Snapshot())}},
		{Name: "http: one pod, then a list", Steps: []Step{
			from("http", "ADD[a/1]+", podconfig.Snapshot(a())), from("http", "ADD[b/2]", podconfig.Snapshot(a(), b()))}},
		{Name: "api: a pod's life", Steps: []Step{
			from("api", "ADD[]+", podconfig.Snapshot()),
			from("api", "ADD[a/1]", podconfig.Upsert(a(Version("1")))),
			from("api", "RECONCILE[a/1]", podconfig.Upsert(a(Version("2"), Phase(v1.PodRunning)))),
			from("api", "DELETE[a/1]", podconfig.Upsert(a(Version("3"), Phase(v1.PodRunning), Deleting(30)))),
			from("api", "DELETE[a/1]", podconfig.Upsert(a(Version("4"), Phase(v1.PodRunning), Deleting(0)))),
			from("api", "REMOVE[a/1]", podconfig.Remove("1"))}},
		{Name: "api: pods that were there at the first list", Steps: []Step{
			from("api", "ADD[a/1 b/2]+", podconfig.Snapshot(a(Version("1")), b(Version("2"))))}},
		{Name: "api: the same event twice", Steps: []Step{
			from("api", "ADD[a/1]", podconfig.Upsert(a(Version("1")))), from("api", "", podconfig.Upsert(a(Version("1"))))}},
		{Name: "api: deleted and made anew while nobody listened", Steps: []Step{
			from("api", "ADD[a/1 b/2]+", podconfig.Snapshot(a(Version("1")), b(Version("2")))),
			from("api", "REMOVE[a/1] ADD[a/9]", podconfig.Snapshot(b(Version("2")), Pod("a", "9", Version("9"))))}},
		{Name: "api: a list after a gap tells only what changed", Steps: []Step{
			from("api", "ADD[a/1 b/2 c/3]+", podconfig.Snapshot(a(Version("1")), b(Version("2")), c(Version("3")))),
			from("api", "UPDATE[b/2]", podconfig.Snapshot(a(Version("1")), b(Version("9"), Image("x:2")), c(Version("3"))))}},
		{Name: "api: a mirror pod is a pod of the API server", Steps: []Step{
			snapshot("ADD[a/1]+", a()), from("api", "ADD[a/mirror-uid]", podconfig.Upsert(mirror)),
			from("api", "REMOVE[a/mirror-uid]", podconfig.Remove("mirror-uid")), snapshot("", a())}},
	}
}

// misuseCases test mistakes of the program, which leave the Merger unchanged.
func misuseCases() []Case {
	return []Case{
		{Name: "no source", Steps: []Step{{Change: podconfig.Snapshot(a()), Err: podconfig.ErrNoSource}, snapshot("ADD[a/1]+", a())}},
		{Name: "the zero change", Steps: []Step{{Source: "file", Err: podconfig.ErrUnknownChange}, snapshot("ADD[a/1]+", a())}},
	}
}
