// The processor time of this process and of servers.

/** Returns the user and system time of this process since `since`, in ms. */
export function ownCpuMs(since) {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
}

/** Returns the user and system time of these servers, in ms. */
export async function serverCpuMs(clients) {
  const infos = await Promise.all(clients.map((client) => client.info('cpu')));
  return infos.reduce((total, info) => total + 1000 * (secondsIn(info, 'user') + secondsIn(info, 'sys')), 0);
}

const secondsIn = (info, kind) => Number(new RegExp(`^used_cpu_${kind}:([\\d.]+)`, 'm').exec(info)[1]);
