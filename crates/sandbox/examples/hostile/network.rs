//! Lines 55, 56, 60 to 65, 67 and 68: direct network access.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::{Attack, AttackArguments, breach, has_own_kernel, held, judge, last_errno, refused};

pub(crate) const ATTACKS: &[Attack] = &[
    ("host-tcp", host_tcp),
    ("host-udp", host_udp),
    ("host-abstract", host_abstract),
    ("host-addresses", host_addresses),
    ("dns", dns),
    ("metadata", metadata),
    ("raw-sockets", raw_sockets),
    ("icmp", icmp),
    ("vsock", vsock),
    ("families", families),
    ("protocols", protocols),
    ("netlink", netlink),
    ("service-sockets", service_sockets),
    ("interfaces", interfaces),
    ("listen", listen),
    ("sibling", sibling),
];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A TCP connection to an address outside the sandbox. Only a missing route is correct, because a
/// refusal would be an answer from outside.
fn try_connect(address: SocketAddr) {
    let local = address.ip().is_loopback();
    match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
        Ok(_) => breach(format_args!("connected to {address}")),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EADDRNOTAVAIL | libc::EPERM | libc::EACCES) => {
                held(format_args!("{address}: {error}"));
            }
            // The error of a kernel without interfaces that is not Linux.
            Some(libc::EHOSTUNREACH) if has_own_kernel() => {
                held(format_args!("{address}: {error}"))
            }
            // Its own loopback without a listener.
            Some(libc::ECONNREFUSED) if local => held(format_args!("{address}: {error}")),
            _ => breach(format_args!("{address} was tried: {error}")),
        },
    }
}

fn send_datagram(address: SocketAddr, content: &[u8]) {
    let bind = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = match UdpSocket::bind(bind) {
        Ok(socket) => socket,
        Err(error) => return held(format_args!("bind for {address}: {error}")),
    };
    let local = address.ip().is_loopback();
    match socket.send_to(content, address) {
        Ok(_) if local => {
            // Its own loopback: the suite checks whether it was received.
            let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
            match socket.recv_from(&mut [0; 512]) {
                Ok(_) => breach(format_args!("{address} answered")),
                Err(error) => held(format_args!("{address} is silent: {error}")),
            }
        }
        Ok(_) => breach(format_args!("sent a datagram to {address}")),
        Err(error) => held(format_args!("datagram to {address}: {error}")),
    }
}

fn host_tcp(world: &AttackArguments) {
    let port = world.number("tcp") as u16;
    for address in [
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
    ] {
        let address: IpAddr = address.parse().unwrap();
        let address = SocketAddr::new(address, port);
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => breach(format_args!("reached the host at {address}")),
            Err(error) => held(format_args!("{address}: {error}")),
        }
    }
}

fn host_udp(world: &AttackArguments) {
    let port = world.number("udp") as u16;
    for address in ["127.0.0.1", "127.0.0.2"] {
        send_datagram(SocketAddr::new(address.parse().unwrap(), port), b"hostile");
    }
}

fn abstract_name(name: &str) -> std::os::unix::net::SocketAddr {
    std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap()
}

fn host_abstract(world: &AttackArguments) {
    let name = abstract_name(world.text("abstract"));
    judge(
        "connect to an abstract socket of the host",
        UnixStream::connect_addr(&name),
    );
    let datagram = UnixDatagram::unbound().unwrap();
    judge(
        "send to an abstract socket",
        datagram.send_to_addr(b"hostile", &name),
    );
}

fn host_addresses(world: &AttackArguments) {
    for address in world.list("addresses") {
        let address: IpAddr = address.parse().unwrap();
        for port in [22, 80, 443, world.number("tcp") as u16] {
            try_connect(SocketAddr::new(address, port));
        }
        send_datagram(SocketAddr::new(address, 53), b"hostile");
    }
}

fn dns(_: &AttackArguments) {
    // A query for a name that carries a secret.
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["secret-of-the-host", "example", "invalid"] {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    for server in [
        "127.0.0.53:53",
        "127.0.0.1:53",
        "8.8.8.8:53",
        "[2001:4860:4860::8888]:53",
    ] {
        send_datagram(server.parse().unwrap(), &query);
        try_connect(server.parse().unwrap());
    }
    for server in ["8.8.8.8:853", "1.1.1.1:443"] {
        try_connect(server.parse().unwrap());
    }
    judge(
        "resolve a name",
        ("secret-of-the-host.example.invalid", 80)
            .to_socket_addrs()
            .map(|all| all.count()),
    );
}

fn metadata(_: &AttackArguments) {
    for address in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "64:ff9b::a9fe:a9fe",
    ] {
        try_connect(SocketAddr::new(address.parse().unwrap(), 80));
    }
    // Other spellings that a C library parses as the same address.
    for spelling in [
        "2852039166",
        "0xA9FEA9FE",
        "0251.0376.0251.0376",
        "169.254.43518",
    ] {
        match (spelling, 80).to_socket_addrs() {
            Ok(addresses) => addresses.for_each(try_connect),
            Err(error) => held(format_args!("{spelling}: {error}")),
        }
    }
}

fn open_socket(what: impl std::fmt::Display, family: i32, kind: i32, protocol: i32) -> Option<i32> {
    let socket = unsafe { libc::socket(family, kind, protocol) };
    if socket < 0 {
        held(format_args!("{what}: {}", io::Error::last_os_error()));
        return None;
    }
    Some(socket)
}

fn raw_sockets(_: &AttackArguments) {
    for (family, name) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
        for protocol in [
            libc::IPPROTO_RAW,
            libc::IPPROTO_ICMP,
            libc::IPPROTO_TCP,
            libc::IPPROTO_UDP,
        ] {
            if open_socket("raw", family, libc::SOCK_RAW, protocol).is_some() {
                breach(format_args!("raw {name} socket of protocol {protocol}"));
            }
        }
    }
    for kind in [libc::SOCK_RAW, libc::SOCK_DGRAM, 10 /* SOCK_PACKET */] {
        for family in [libc::AF_PACKET, libc::AF_INET] {
            let is_plain = family == libc::AF_INET && kind == libc::SOCK_DGRAM;
            if !is_plain && open_socket("packet", family, kind, 0x0300).is_some() {
                breach(format_args!("packet socket of kind {kind}"));
            }
        }
    }
}

/// Ping sockets need no privilege on many machines, but they need a route.
fn icmp(_: &AttackArguments) {
    for (family, protocol) in [
        (libc::AF_INET, libc::IPPROTO_ICMP),
        (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    ] {
        let Some(socket) = open_socket("ping socket", family, libc::SOCK_DGRAM, protocol) else {
            continue;
        };
        let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        to.sin_family = family as u16;
        to.sin_addr.s_addr = u32::from_ne_bytes([8, 8, 8, 8]);
        let echo = [8u8, 0, 0, 0, 0, 0, 0, 0];
        let returned = unsafe {
            libc::sendto(
                socket,
                echo.as_ptr().cast(),
                echo.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_in>() as u32,
            )
        };
        refused("ping", returned as i64);
    }
    // QUIC is an ordinary datagram.
    send_datagram("1.1.1.1:443".parse().unwrap(), &[0xc0; 1200]);
}

fn vsock(_: &AttackArguments) {
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        if let Some(socket) = open_socket("vsock", libc::AF_VSOCK, kind, 0) {
            breach(format_args!("vsock {socket} of kind {kind}"));
        }
    }
}

/// Every socket family except the few that programs need, with both calls that create sockets. Only
/// a refusal by the filter counts: any other error comes from the family's own code, which the
/// kernel may have loaded on demand.
fn families(_: &AttackArguments) {
    let needed = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    for family in (0..46).filter(|family| !needed.contains(family)) {
        for kind in [
            libc::SOCK_STREAM,
            libc::SOCK_DGRAM,
            libc::SOCK_RAW,
            libc::SOCK_SEQPACKET,
        ] {
            let returned = unsafe { libc::socket(family, kind, 0) };
            must_be_filtered(
                format_args!("socket of family {family}, kind {kind}"),
                returned,
            );
        }
    }
    for family in (0..46).filter(|family| *family != libc::AF_UNIX) {
        let mut pair = [0; 2];
        let returned = unsafe { libc::socketpair(family, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) };
        must_be_filtered(format_args!("socket pair of family {family}"), returned);
    }
}

fn must_be_filtered(what: impl std::fmt::Display, returned: i32) {
    match (returned, last_errno()) {
        (-1, libc::EPERM) => held(what),
        (-1, errno) => breach(format_args!(
            "{what}: its own code answered with error {errno}"
        )),
        _ => breach(what),
    }
}

/// Transport protocols that are not needed and that the kernel loads on demand.
fn protocols(_: &AttackArguments) {
    for (name, kind, protocol) in [
        ("SCTP", libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        ("SCTP", libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
        ("DCCP", 6, libc::IPPROTO_DCCP),
        ("L2TP", libc::SOCK_DGRAM, 115),
        ("SMC", libc::SOCK_STREAM, 256),
    ] {
        for (family, version) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
            let returned = unsafe { libc::socket(family, kind, protocol) };
            must_be_filtered(format_args!("{name} over {version}"), returned);
        }
    }
}

fn netlink(_: &AttackArguments) {
    for protocol in (0..32).filter(|protocol| *protocol != libc::NETLINK_ROUTE) {
        let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol) };
        refused(
            format_args!("netlink of protocol {protocol}"),
            socket.into(),
        );
    }
}

fn service_sockets(world: &AttackArguments) {
    for path in [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/systemd/journal/socket",
        "/run/udev/control",
        "/run/snapd.socket",
        "/run/user",
        "/tmp/.X11-unix/X0",
        "/dev/log",
        world.text("socket"),
    ] {
        if Path::new(path).exists() {
            breach(format_args!("{path} is there"))
        } else {
            held(format_args!("{path} is not there"))
        }
        judge(format_args!("connect to {path}"), UnixStream::connect(path));
    }
    for name in [
        "/tmp/.X11-unix/X0",
        "/tmp/dbus-hostile",
        "/org/freedesktop/systemd1",
    ] {
        judge(
            format_args!("abstract {name}"),
            UnixStream::connect_addr(&abstract_name(name)),
        );
    }
}

fn interfaces(_: &AttackArguments) {
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    for line in devices.lines().skip(2) {
        let name = line.split(':').next().unwrap_or_default().trim();
        match name {
            "lo" => held("lo"),
            name => breach(format_args!("saw the interface {name}")),
        }
    }
    for file in [
        "/proc/net/tcp",
        "/proc/net/route",
        "/proc/net/arp",
        "/proc/net/ipv6_route",
    ] {
        let lines = std::fs::read_to_string(file).unwrap_or_default();
        held(format_args!("{file} has {} lines", lines.lines().count()));
    }
    // Adding an interface, an address or a route would each be a breach.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        // Sets the current flags: being allowed to do that is a breach.
        libc::ioctl(socket, libc::SIOCGIFFLAGS, &raw mut request);
        let returned = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        refused("set the flags of the loopback", returned.into());
        let route: libc::rtentry = std::mem::zeroed();
        refused(
            "add a route",
            libc::ioctl(socket, libc::SIOCADDRT, &raw const route).into(),
        );
    }
}

/// Accepts connections, as the victim in another sandbox.
fn listen(world: &AttackArguments) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = UnixListener::bind_addr(&abstract_name(world.text("abstract"))).unwrap();
    println!("PORT {}", port.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let _ = local.accept();
        println!("HIT");
    });
    let _ = port.accept();
    println!("HIT");
}

fn sibling(world: &AttackArguments) {
    let port = world.number("sibling-tcp") as u16;
    for address in ["127.0.0.1", "127.0.0.2", "::1"] {
        try_connect(SocketAddr::new(address.parse().unwrap(), port));
    }
    let name = abstract_name(world.text("sibling-abstract"));
    judge(
        "connect to an abstract socket of a sibling",
        UnixStream::connect_addr(&name),
    );
}
