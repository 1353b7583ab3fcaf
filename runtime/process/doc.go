// SPDX-License-Identifier: Apache-2.0

// Package process is a runtime.Runtime that runs each container as an ordinary
// OS process: no container engine, no image, no root.
//
//	func main() {
//		process.Main() // first: this program is also its containers' shim
//
//		backend, err := process.New(process.Options{Root: "/var/lib/agent/process"})
//		if err != nil {
//			log.Fatal(err)
//		}
//		manager, err := runtime.New(runtime.Options{Runtime: backend, Generator: generator})
//		…
//	}
//
// # The caller's duties
//
//  1. Call Main first in main, and in TestMain of tests that start containers;
//     or build a program whose main is shim.Main() and name it in Options.Shim.
//     Otherwise StartContainer fails with ErrNoShim.
//  2. Give Root to one agent at a time. Starts are safe with two, plans are not.
//  3. Let shims live when the agent ends: under systemd, set KillMode=process.
//  4. An agent that is process 1 reaps unknown orphans, as every process 1 must. The
//     agent's own shims are reaped by the first call that sees the shim exited.
//
// No goroutine outlives a call. Watch and Exec use the goroutine of the caller. The only state in
// memory is the list of broken records that were logged, and the last disk usage of working
// folders.
//
// # What a container gets
//
//   - A command: ContainerSpec.Command and Args. Without Options.Images the image is ignored, so
//     a container without a command is refused.
//   - A working folder for this container alone, deleted with the container's record. The
//     folder is the working directory and HOME, and KEELSON_ROOT holds its path.
//   - Mounts as symbolic links: a volume mounted at /etc/app appears at
//     $KEELSON_ROOT/etc/app. There is no mount namespace: /etc/app itself is the
//     host's. A working directory or command at or below a mount is translated;
//     other paths are the host's. A relative working directory is below the working
//     folder.
//   - An environment of the spec's variables, PATH (the agent's), HOSTNAME, HOME and
//     KEELSON_ROOT, which the spec may override. KEELSON_CONTAINER_ID marks the
//     processes of a container, and the spec cannot override the mark. No other
//     variable of the agent's environment is passed on.
//   - A termination message, read from $KEELSON_ROOT + terminationMessagePath. A link
//     that leads out of the working folder is not followed.
//   - /dev/null as stdin. The output goes to the log, in the CRI's format. The shim
//     rotates the log, so that the log of one instance takes at most about
//     Options.MaxLogSize × MaxLogFiles. Package logs reads rotated files, too. On a full
//     disk, output is lost and the container continues.
//   - The host's network (see Networks), processes, users and files. Fields that ask for
//     anything else are refused, see CheckPod, unless Options.Lenient.
//
// All processes of a container run as the agent's user. Without walls, a container has all rights
// of that user, also over the state folder.
//
// # Walls
//
// A securityContext takes rights away, without root:
//
//   - allowPrivilegeEscalation: false sets no_new_privs. Every other wall sets it, too.
//   - capabilities.drop and add: a container keeps capabilities of the agent, never more.
//   - seccompProfile: RuntimeDefault is the default list of moby for the container's
//     capabilities; Localhost is a profile below Options.SeccompRoot. A profile has to allow
//     the system calls that start a process. amd64, arm64 and arm.
//   - readOnlyRootFilesystem: true lets a container write to its volumes, the termination
//     message and a few devices only, by Landlock ABI 3 (Linux 6.2). Volumes with
//     readOnly: true cannot be written either. Landlock knows no modes, owners and times.
//
// Options.Confine puts every container behind all walls. Where the kernel allows namespaces, a
// container then has a root file system with its volumes as mounts, and processes, IPC and a host
// name of its own. An agent without CAP_SYS_ADMIN makes these namespaces in a user namespace.
// runAsUser and runAsGroup may be any number. With subordinate IDs of the agent's user, the root of an
// image's container has all users: such a container enters a user namespace that newuidmap has filled. The
// command is process 1 of the container, and a
// command of Exec joins the namespaces. Without namespaces, a container
//
//   - reads and executes only its working folder, its volumes, and the folders of the system
//     (/usr, /bin, /sbin, /lib…, /etc, /opt, /nix, /proc, /sys), not the state folder;
//   - sends signals, and connects to abstract sockets, only to its own processes (Landlock
//     ABI 6, Linux 6.12). A command of Exec is apart from the container's processes.
//
// With Options.Images, which needs namespaces, a container's root is an overlay of its image's files
// and a folder of its own, and the image supplies command, environment, user, working directory and
// stop signal that the pod does not set. /etc/hosts and /etc/resolv.conf are the host's. A volume
// cannot be mounted through a link of the image that leads nowhere.
//
// If the kernel lacks a wall, the pod is refused, and the error names the field. The walls are set
// up by system calls between fork and execve, because no wall can be taken down again. The child is
// a copy of the shim's memory that makes the prepared calls and nothing else.
// docs/process-backend.md has the threats, each with the test of its wall.
//
// # Networks
//
// With Options.Pasta, a pod without hostNetwork has a network namespace. A process of package shim,
// the keeper, makes a child in the namespace and starts pasta, and ends both. A container enters the
// namespace between the clone of the shim's child and the clone of the container's own namespaces. The
// user namespace that owns the network is that child's: a container's own one is inside of it, and
// has no rights over the network. DialPod takes a socket from a process that enters the namespace,
// because a program of several threads cannot.
//
// # Limits of resources
//
// With Options.Cgroup each container has a cgroup with its limits of memory and cpu, in the pod's
// cgroup, of version 1 or 2. The first of the system calls between fork and execve enters the cgroup.
// The agent makes the cgroup before each start, and removes it before the records of the container,
// so that a killed agent leaves none without a record. UpdateResources resizes running containers.
//
// # State
//
// Folders are 0700 and files 0600, because the environment may hold secrets. All records are JSON
// and are replaced atomically, but for end: it is binary and written in place, after its copy.
//
//	<root>/<uid>/sandbox-<attempt>-<salt>/
//	    sandbox.json                 pod, host network, boot ID
//	    stopped.json                 exists if the sandbox was stopped
//	    foreign/                     exists if files may belong to subordinate users; links to the
//	                                 emptyDirs with such files
//	    network.json                 the keeper of the network, and its child in the namespace
//	    pasta.pid                    of pasta; resolv.conf if the host's file is of no use
//	    <name>-<restart>-<salt>/
//	        spec.json                command, environment, facts for statuses; a copy of sandbox.json
//	        pid.json                 boot ID; PID and start time of shim and main process;
//	                                 after the end also a copy of exit.json
//	        exit.json                exit code, reason, message, time
//	        end                      exit code and time, written by a shim that has ended in a nap
//	        exec                     exists if Exec was used
//	        over/                    mount points in folders of the system
//	        shim.log                 stderr of the shim: empty, or the log's errors; after a nap
//	                                 a copy of end; locked while a shim runs or starts
//	        work/                    the working folder
//
// An ID holds the same facts as the folder's name, so that a broken record does not hide which
// container the record belongs to. A folder is made under a name that begins with a dot, and then
// renamed. A folder is renamed to such a name before its removal.
//
// # Why a crash at any moment is safe
//
//	StartContainer:  lock, check, fork shim (inherits the lock), which forks the main process,
//	                 wait until that is prepared, pid.json{shim, main}, statement, "begin"
//	main process:    namespaces and walls, "prepared", wait for "begin", exec
//	shim:            dozes, … exit, kill the rest, no statement, exit.json, end (unlocks)
//	or:              dozes, … exit, nothing is left, end, end (unlocks and the statement is gone)
//
// The shim dozes from the start, so that a start needs no new process of Go (package shim). A main
// process without "begin" ends if the agent has ended, and the shim removes pid.json then.
// A shim that dozes writes the file "end" in the place of exit.json, if there is no output and no
// process left. The first reader adds reason and message, and writes exit.json. Until then "end" counts
// as exit.json. If the shim cannot doze from the start, it does this itself:
//
//	StartContainer:  lock, check, fork shim (inherits the lock), wait for the shim's report
//	shim:            pid.json{shim}, exec, pid.json{shim, main}, statement, "started", …
//
// The lock belongs to the open file, of which the agent and the shim have duplicates. The lock is
// free exactly when both are dead, and then no call can start the container any more. Each call
// therefore reads exit.json, the lock and pid.json in this order (function judge):
//
//	exit.json, the shim is dead           exited, which a power cut does not undo
//	locked, pid.json with main            running, also while the shim writes exit.json
//	locked, no main                       starting: the state settles within milliseconds
//	free, no pid.json                     created; no call under way can start the container
//	free, pid.json                        the shim died: the container's processes are killed,
//	                                      and exit.json is written with code 137
//	pid.json of an earlier boot           exited, 137
//
// An agent that dies before the fork leaves a created container. After the fork the shim continues,
// and the next agent finds the container running or with its true exit code. A broken record is
// logged once and never read as "created".
//
// # Identity comes from the kernel
//
// Containers run as the agent's user, and can therefore destroy and forge every file here. On
// Linux the decisive facts are in the kernel and in the shim's memory:
//
//   - The lock is a name in the kernel (an abstract unix socket) beside the lock file.
//   - A shim is identified by its arguments, which are the same while it dozes: the
//     container's folder, which the salts make unique. A recorded PID is only a hint for the search. Every
//     signal goes through a pidfd that was opened before the arguments were compared.
//   - The statement is sealed memory with the spec and the processes. The shim holds it
//     open while the container runs. If a record of a container with a held lock is
//     missing, broken or contradicts another record, the record is restored from the
//     statement. Damage to any single record restarts no container. exit.json and
//     sandbox.json are restored from their copies.
//   - The shim kills only its unreaped children, because the PID of an unreaped child
//     cannot be reused. While it dozes, it signals the main process's group by a pidfd. A process that
//     escapes by a double fork becomes a child of the shim.
//   - The kernel kills the main process when the shim dies (PR_SET_PDEATHSIG). The
//     container's other processes are found by KEELSON_CONTAINER_ID in the environment.
//     Sessions that such processes made are killed with all members. Session 0 and the
//     session of the killing process are spared: no container has made them.
//
// exit.json or "end" is synced to disk, and the space is reserved at the start, so that an exit code
// survives a power cut and a full disk. No other record needs to survive a power cut, because no
// container does.
//
// # Leftovers
//
// A killed agent may leave folders half made or half removed. A call locks the folder that the
// call makes, so an unlocked folder is abandoned. Leftovers finds abandoned folders, folders of
// pods without a sandbox, shims whose container's folder is gone, and processes with the mark of a
// container that does not run. The first step of Watch, and runtime.Manager.GarbageCollect, remove
// the leftovers that are provably this backend's.
//
// # Limits
//
//   - Linux 5.3 (pidfd). macOS is best effort: exits are found by polling, and processes
//     that leave the process group by a double fork are not found.
//   - Without Options.Cgroup no limits, and no reason OOMKilled: such a container only has
//     exit code 137. Without Options.Pasta, no network namespace.
//   - A set-user-ID program of another user may survive its container. The termination
//     message then says so.
//   - Without Options.Cgroup, usage is that of the processes below the shim, from /proc: processor time in steps of
//     10 ms, without the time of children that their parent did not wait for; memory is
//     the sum of resident sets, so that shared memory counts more than once.
//   - If a shim is killed with SIGKILL, a process with a cleared environment is found only
//     if another process in the same session still has the mark.
//   - If the folder of a container is deleted while it runs, the container is killed
//     when leftovers are collected.
//   - An agent in another network namespace than its predecessor does not see the
//     names of the locks, and uses the lock files.
//
// # Differences
//
// From the kubelet with a CRI runtime: SIGTERM goes to the process group, not only to the main
// process. A created container that is stopped becomes exited (137). The container stays created if
// only the sandbox is stopped. The processes of Exec end with the container. If a background
// process holds the output of Exec's command open, Exec returns half a second after the command's
// end. The shim rotates logs before they are too big, and not up to 10 s later. Rotated logs are
// not compressed. With more than one rotation a second, the time stamps in their names run ahead of
// the clock.
//
// Folders carry a salt. hostPID, hostIPC and shareProcessNamespace are accepted,
// because containers see the host's processes. Without readOnlyRootFilesystem: true, readOnly is
// accepted only for mounts of configMap, secret, projected and downwardAPI volumes.
package process
