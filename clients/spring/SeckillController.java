package shop;

import java.security.Principal;
import java.time.Duration;
import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import seckill.SeckillClient;

/**
 * Your shop calls seckill for its buyers (way C of docs/your-shop.md): the login is yours, and seckill trusts the user
 * that you name. The service must see your shop's servers only. A thread waits here for each buyer of a rush, at most
 * three seconds: let a gateway send purchases to seckill directly (gateway.yml) if that is too many.
 */
@RestController
@RequestMapping("/flash-sale")
class SeckillController {
    private final SeckillClient seckill = new SeckillClient(System.getenv("SECKILL_URL"), Map.of()); // one for all

    private SeckillClient as(Principal buyer) {
        return seckill.as(Map.of("X-User-Id", buyer.getName())).within(Duration.ofSeconds(3));
    }

    /** The page makes the key when the button is pressed, and sends the same one again as long as it has no answer. */
    @PostMapping("/{voucher}")
    ResponseEntity<Map<String, Object>> buy(
            @PathVariable("voucher") String voucher,
            @RequestHeader("Idempotency-Key") String key,
            @RequestHeader(value = "X-Again", required = false) String again,
            Principal buyer) {
        var result = as(buyer).buy(voucher, 1, key, again != null);
        return switch (result.outcome()) {
            case WON -> ResponseEntity.status(HttpStatus.CREATED).body(result.body());
            case ACCEPTED, WAITING -> ResponseEntity.accepted().body(result.body()); // the page asks for it, below
            case REFUSED, ENDED -> ResponseEntity.status(HttpStatus.CONFLICT).body(result.body()); // by its `code`
            default -> ResponseEntity.status(HttpStatus.SERVICE_UNAVAILABLE) // neither yes nor no: the page asks again
                    .header("Retry-After", "1")
                    .body(Map.of("code", "UNKNOWN"));
        };
    }

    @GetMapping("/orders/{id}")
    ResponseEntity<Map<String, Object>> order(@PathVariable("id") String id, Principal buyer) {
        try {
            return ResponseEntity.ok(as(buyer).order(id));
        } catch (SeckillClient.Problem problem) {
            return ResponseEntity.status(problem.status == 404 ? HttpStatus.NOT_FOUND : HttpStatus.SERVICE_UNAVAILABLE)
                    .build();
        }
    }
}
