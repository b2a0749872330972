import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readSettings } from './settings.ts'

// nginx as Debian packages it, in front of one server: it compresses text at level 5, with one
// worker and its access log on. server: as its directive `server` takes it.

const { port, folder, server } = readSettings('folder', 'server')
mkdirSync(join(folder, 'temporary'), { recursive: true })
const config = join(folder, 'nginx.conf')
writeFileSync(
  config,
  `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
user ${process.getuid?.() === 0 ? 'root' : 'nobody'};
events { worker_connections 1024; }
http {
  keepalive_requests 1000000;
  client_body_temp_path ${folder}/temporary/body;
  proxy_temp_path ${folder}/temporary/proxy;
  fastcgi_temp_path ${folder}/temporary/fastcgi;
  uwsgi_temp_path ${folder}/temporary/uwsgi;
  scgi_temp_path ${folder}/temporary/scgi;
  access_log ${folder}/access.log;
  gzip on;
  gzip_comp_level 5;
  gzip_vary on;
  gzip_min_length 1024;
  gzip_types application/json;
  upstream function {
    server ${server};
    keepalive 64;
    keepalive_requests 1000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://function;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header Accept-Encoding "";
      proxy_buffers 16 16k;
    }
  }
}
`,
)
const nginx = spawn('nginx', ['-c', config, '-p', folder], { stdio: 'inherit' })
nginx.on('exit', (code) => process.exit(code ?? 1))
process.on('exit', () => void nginx.kill())
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0))
